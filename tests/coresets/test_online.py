"""Streams by "online": the same as one pass over a source; labels as they come; blocks that do not fit."""

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore import build_coreset
from bayescore.coresets import online
from bayescore.coresets.leverage import RATE_BITS, leverage_scores, rates_of
from bayescore.validation import DataError
from tests.cuts import build_in_blocks

N = 1000
_rng = np.random.default_rng(6)
X = _rng.normal([0.0, 2.0, -1.0], size=(N, 3))
Y = np.where(X[:, 0] + _rng.normal(size=N) > 0, "yes", "no")
W = _rng.uniform(0.1, 6.0, N)


@pytest.fixture(autouse=True)
def blocks_of_128_rows(monkeypatch):
    """Canonical blocks are of 128 rows, so that a thousand rows are a stream."""
    monkeypatch.setattr(online, "block_rows", lambda n_features: 128)


def online_stream(size, **options):
    return bc.stream("online", size=size, **{"family": "probit", **options})


def streamed(cuts, rows=N, weighted=False, **options):
    stream = online_stream(**{"size": 60, "random_state": 7, **options})
    for part in np.split(np.arange(rows), cuts):
        stream = stream.partial_fit(X[part], Y[part], W[part] if weighted else None)
    return stream


def assert_identical(a, b, without=()):
    for name in ("X", "y", "weights", "index"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in ("classes", "n_total", "weight_total", "method", "family", "random_state", "design", "label"):
        assert getattr(a, name) == getattr(b, name), name
    assert {k: v for k, v in a.params.items() if k not in without} == b.params


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cuts", [[], list(range(1, N)), [128, 256, 999], [1, 700], list(range(100, N, 100))])
def test_however_it_is_fed_the_coreset_is_that_of_one_pass_over_all(cuts, weighted, intercept):
    core = streamed(cuts, weighted=weighted, intercept=intercept).coreset()
    whole = build_in_blocks(
        X,
        Y,
        weights=W if weighted else None,
        method="online",
        family="probit",
        size=60,
        intercept=intercept,
        block_rows=128,
    )
    assert_identical(whole, core, without=("passes",))
    assert isinstance(core, bc.Coreset)
    assert core.feature_names == (("Intercept",) if intercept else ()) + ("x0", "x1", "x2")
    np.testing.assert_array_equal(core.y, np.where(Y[core.index] == "yes", 1, -1))
    np.testing.assert_array_equal(core.X[:, int(intercept) :], X[core.index])


@pytest.mark.parametrize("weighted", [False, True])
def test_at_any_moment_it_is_the_coreset_of_the_rows_so_far_and_the_stream_goes_on(weighted):
    cuts = [50, 128, 300, 511, 512, 900]
    asked = online_stream(size=60, random_state=7)
    for low, high in zip([0, *cuts], [*cuts, N], strict=True):
        asked.partial_fit(X[low:high], Y[low:high], W[low:high] if weighted else None)
        assert_identical(asked.coreset(), streamed([], high, weighted).coreset())
        assert asked.coreset().n_total == high
    assert_identical(asked.coreset(), streamed(cuts, weighted=weighted).coreset())


@pytest.mark.parametrize("weighted", [False, True])
def test_rates_are_known_when_the_row_is_seen(weighted):
    """Each block is scored against all rows up to its end, its weights against the total so far."""
    core = streamed([], weighted=weighted).coreset()
    w = W if weighted else np.ones(N)
    rates = np.zeros(N)
    for low in range(0, N, 128):
        high = min(low + 128, N)
        scores = leverage_scores(X[:high], w[:high])[low:]
        rates[low:high] = rates_of(scores, w[low:high], w[:high].sum())
    draws = core.weights * (rates / rates.sum())[core.index] * 60 / w[core.index]
    np.testing.assert_allclose(draws, np.rint(draws), rtol=1e-9)
    assert np.rint(draws).sum() == 60
    assert core.params == {"draws": 60, "rank": 3, "score_total": pytest.approx(rates.sum() / 2.0**RATE_BITS)}


def test_memory_is_a_block_and_the_rows_drawn():
    stream = streamed(list(range(1, N)))
    assert len(stream._state.drawn.times) == 60
    assert len(stream._cutter.rest) == N % 128
    assert stream._state.factor.shape == (3, 3)


def test_the_caller_may_reuse_its_arrays():
    stream, x, y, w = online_stream(size=60, random_state=7), np.empty((50, 3)), np.empty(50, dtype="U3"), np.empty(50)
    for low in range(0, N, 50):
        x[:], y[:], w[:] = X[low : low + 50], Y[low : low + 50], W[low : low + 50]
        stream.partial_fit(x, y, w)
        x[:], y[:], w[:] = 9e9, "no", 1e9
    assert_identical(stream.coreset(), streamed([], weighted=True).coreset())


# --- labels -------------------------------------------------------------------------------------------------


def test_blocks_may_have_one_class():
    for order in (np.argsort(Y, kind="stable"), np.argsort(Y, kind="stable")[::-1]):
        sorted_y = Y[order]
        stream = online_stream(size=60, random_state=7)
        for low in range(0, N, 100):
            stream.partial_fit(X[order][low : low + 100], sorted_y[low : low + 100])
        core = stream.coreset()
        assert core.classes == ("no", "yes")
        np.testing.assert_array_equal(core.y, np.where(sorted_y[core.index] == "yes", 1, -1))


@pytest.mark.filterwarnings("ignore:a hyperplane separates:UserWarning")  # so few rows
def test_a_coreset_while_one_label_has_been_met():
    positive = X[Y == "yes"]
    stream = online_stream(size=20, random_state=0).partial_fit(positive, ["yes"] * len(positive))
    with pytest.raises(DataError, match=r"only the label 'yes' has been met in \d+ rows; add rows .* classes="):
        stream.coreset()
    assert stream.partial_fit(X[Y == "no"], ["no"] * (Y == "no").sum()).coreset().classes == ("no", "yes")
    named = online_stream(size=20, random_state=0, classes=["yes", "no"]).partial_fit(positive, ["yes"] * len(positive))
    with pytest.warns(UserWarning, match="rows of the coreset have one label.*larger size") as caught:
        core = named.coreset()
    assert caught[0].filename == __file__
    assert core.classes == ("no", "yes")
    assert (core.y == 1).all()


@pytest.mark.filterwarnings("ignore:a hyperplane separates:UserWarning")  # so few rows
@pytest.mark.parametrize(
    ("labels", "classes"),
    [([0, 1], (0, 1)), ([True, False], (False, True)), ([2.5, -1.0], (-1.0, 2.5)), (np.array([5, 3]), (3, 5))],
)
def test_labels_of_any_kind(labels, classes):
    core = online_stream(size=5, random_state=0).partial_fit(X[:2], labels).partial_fit(X[2:4], labels).coreset()
    assert core.classes == classes
    np.testing.assert_array_equal(core.y, np.where(np.tile(labels, 2)[core.index] == classes[1], 1, -1))


def test_it_is_saved_and_sampled_like_any_coreset(tmp_path):
    core = streamed([400], intercept=True).coreset()
    core.save(tmp_path / "core.parquet")
    assert_identical(bc.read_coreset(tmp_path / "core.parquet"), core)
    assert bc.find_map(core).beta.shape == (4,)
    assert "online" in repr(core)


def test_a_data_frame_names_the_columns():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    stream = online_stream(size=60, random_state=7).partial_fit(frame[:300], pd.Series(Y[:300]))
    core = stream.partial_fit(frame[300:], Y[300:]).coreset()
    assert core.feature_names == ("a", "b", "c")
    np.testing.assert_array_equal(core.index, streamed([]).coreset().index)
    with pytest.raises(DataError, match="block 2 has the columns a, c, b, the blocks before it a, b, c; give"):
        stream.partial_fit(frame[["a", "c", "b"]], Y)


# --- blocks that do not fit ---------------------------------------------------------------------------------

BAD = {
    "columns": ((X[:5, :2], Y[:5]), "block 2 has 2 columns, the blocks before it 3; give the same columns in every"),
    "third class": ((X[:5], ["no", "yes", "no", "maybe", "no"]), "block 2: y is 'maybe' in row 3, neither 'no' nor 'y"),
    "kinds of label": ((X[:2], [1, 0]), "block 2: y is 0 in row 1, neither|block 2: y is 1 in row 0, neither"),
    "missing label": ((X[:2], ["no", None]), "block 2: y has missing labels; drop those rows"),
    "NaN": ((np.where(np.arange(15).reshape(5, 3) == 7, np.nan, 1.0), Y[:5]), "block 2: column 'x1' is nan in row 2"),
    "huge": ((np.full((5, 3), 1e200), Y[:5]), r"block 2: column 'x0' has entries above 1e\+100 in size; rescale it"),
    "labels short": ((X[:5], Y[:4]), r"block 2: y has shape \(4,\); it must be \(5,\)"),
    "weight": ((X[:2], Y[:2], [1.0, -3.0]), "block 2: weights is -3 in row 1; weights must be positive"),
    "weights short": ((X[:2], Y[:2], [1.0]), r"block 2: weights has shape \(1,\); it must be \(2,\)"),
    "no rows": ((X[:0], Y[:0]), r"block 2: X has shape \(0, 3\); it needs at least one row"),
    "one row": ((X[0], Y[:1]), r"block 2: X has shape \(3,\); it must be 2-D"),
    "text": ((np.full((2, 3), "a"), Y[:2]), "block 2: X has dtype <U1; it must be numeric"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_block_is_refused_and_leaves_the_stream_as_it_was(kind):
    arguments, message = BAD[kind]
    stream = streamed([400])
    with pytest.raises(DataError, match=message):
        stream.partial_fit(*arguments)
    assert_identical(stream.coreset(), streamed([400]).coreset())
    assert stream.partial_fit(X, Y).coreset().n_total == 2 * N


def test_a_bad_first_block_decides_nothing():
    stream = online_stream(size=60, random_state=7)
    for block in ((X[:5, :2], [1, 2, 3, 1, 1]), (np.full((2, 5), np.nan), ["a", "b"])):
        with pytest.raises(DataError, match="block 0"):
            stream.partial_fit(*block)
    assert_identical(stream.partial_fit(X, Y).coreset(), streamed([]).coreset())


def test_before_the_first_block():
    with pytest.raises(RuntimeError, match=r"no block has come yet: call partial_fit\(X, y\) before coreset\(\)"):
        online_stream(size=10).coreset()


@pytest.mark.filterwarnings("ignore:a hyperplane separates:UserWarning")  # so few rows
def test_a_stream_of_zeros_waits_for_a_row_with_leverage():
    stream = online_stream(size=10, random_state=0).partial_fit(np.zeros((300, 2)), np.arange(300) % 2)
    with pytest.raises(DataError, match="every entry of the design matrix is 0: no row has leverage"):
        stream.coreset()
    core = stream.partial_fit([[1.0, 0.0], [0.0, 1.0]], [0, 1]).coreset()
    assert core.params["rank"] == 2
    assert {300, 301} <= set(core.index)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"size": 0}, ValueError, "size=0 must be at least 1"),
        ({"size": 10.0}, TypeError, "size=10.0 must be a whole number"),
        ({"family": "tweedie"}, ValueError, "family='tweedie'"),
        ({"random_state": -1}, ValueError, "random_state=-1"),
        ({"classes": ["a"]}, DataError, "classes has one class only, 'a'"),
        ({"classes": "abc"}, DataError, "classes has 3 classes"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        online_stream(**{"size": 10, **arguments})


def test_names_that_the_coreset_needs():
    frame = pd.DataFrame(X[:4], columns=["Intercept", "b", "c"])
    with pytest.raises(DataError, match="the data have a column 'Intercept'; drop it or leave intercept=False"):
        online_stream(size=5, intercept=True).partial_fit(frame, Y[:4])


def test_separated_rows_of_a_stream_are_named():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    stream = online_stream(200, random_state=0).partial_fit(X, X[:, 0] > 0)
    with pytest.warns(UserWarning, match="a hyperplane separates the labels of the coreset's"):
        stream.coreset()
    with pytest.warns(UserWarning, match="a hyperplane separates"):
        build_coreset(iter([(X, X[:, 0] > 0)]), method="online", size=200, random_state=0, progressbar=False)


def test_an_interrupt_leaves_the_stream_as_it_was(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = X[:, 0] + rng.normal(size=400) > 0
    stream = online_stream(50, random_state=0).partial_fit(X[:150], y[:150])

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(online.OnlineState, "with_factor", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stream.partial_fit(X[150:], y[150:])
    whole = online_stream(50, random_state=0).partial_fit(X, y).coreset()
    assert stream.partial_fit(X[150:], y[150:]).coreset().index.tolist() == whole.index.tolist()
