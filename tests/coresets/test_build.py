"""`build_coreset` and `all_rows`: identical coresets from all sources, designs, refusals, interruptions."""

import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayescore import Coreset, all_rows, build_coreset, find_map, read_coreset
from bayescore.coresets import aggregate
from bayescore.coresets import sensitivity as sensitivity_coreset
from bayescore.data.sources import as_source
from bayescore.priors import Normal
from bayescore.validation import DataError
from tests.cuts import Recut, build_in_blocks
from tests.methods import METHODS as CASES

pl = pytest.importorskip("polars")

N = 600
_rng = np.random.default_rng(11)
X = np.column_stack([np.round(4.0 * _rng.normal(size=N)) / 4.0, _rng.integers(0, 2, N), _rng.integers(-3, 40, N)])
Y = np.where(X[:, 0] + _rng.logistic(size=N) > 0, "yes", "no")
W = _rng.uniform(0.1, 6.0, N)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=Y)

BUILDERS = ("uniform", "sensitivity", "leverage", "leverage by sketch", "online", "aggregate")
METHODS = {
    **{name: CASES[name] for name in (*BUILDERS, "auto")},
    "epsilon": {"method": "sensitivity", "epsilon": 0.8, "radius": 0.05},
}
DESIGNS = {"raw": {}, "intercept": {"intercept": True}, "standardised": {"intercept": True, "standardize": True}}


def build(data=X, y=None, **options):
    return build_coreset(data, y, **{"random_state": 7, "progressbar": False, **options})


def assert_identical(a, b, likewise=("design",)):
    for name in ("X", "y", "weights", "index"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in ("classes", "n_total", "weight_total", "method", "family", "params", "random_state", *likewise):
        assert getattr(a, name) == getattr(b, name), name


def forms(tmp_path, frame):
    """Yield the same rows in every form that takes a label column."""
    yield frame
    yield frame.set_index(np.arange(N)[::-1] * 2)
    yield pl.from_pandas(frame)
    yield pa.Table.from_pandas(frame.astype({"b": "int8", "c": "float32", "label": "category"}))
    for i, rows in enumerate((1, 37, 600)):
        path = tmp_path / f"{i}.parquet"
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=rows)
        yield path
    folder = tmp_path / "folder"
    folder.mkdir()
    for i, part in enumerate(np.split(np.arange(N), [1, 100, 101, 555])):
        frame.iloc[part].to_parquet(folder / f"{i}.parquet", index=False)
    yield str(folder)


def named(method, design, weighted):
    return {**METHODS[method], **DESIGNS[design]}, {"weights": W} if weighted else {}


GRID = [(m, d, w) for m in BUILDERS for d in DESIGNS for w in (False, True)]


@pytest.mark.parametrize(("method", "design", "weighted"), [*GRID, ("epsilon", "raw", True), ("auto", "raw", False)])
def test_the_same_seed_gives_the_same_coreset_from_every_source(method, design, weighted, tmp_path):
    options, weights = named(method, design, weighted)
    core = build(X, Y, **options, **weights)
    assert len(core) > 5
    for data in (X.astype(np.float32), np.asfortranarray(X), X.tolist()):
        assert_identical(build(data, Y.astype(object), **options, **weights), core)
    assert_identical(build(FRAME[["a", "b", "c"]], pd.Series(Y), **options, **weights), core, ("label",))
    first, frame = None, FRAME.assign(w=W) if weighted else FRAME
    for data in forms(tmp_path, frame):
        other = build(data, label="label", weights="w" if weighted else None, **options)
        assert_identical(other, core, ())
        first = first or other
        assert_identical(other, first, ("design", "label"))
    assert first.design.raw_names == ("a", "b", "c")


@pytest.mark.parametrize(("method", "design", "weighted"), [c for c in GRID if c[1] != "intercept"])
def test_neither_blocks_nor_threads_change_the_coreset(method, design, weighted, tmp_path):
    options, weights = named(method, design, weighted)
    core = build(X, Y, **options, **weights)
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pandas(FRAME.assign(w=W)), path, row_group_size=53)
    columns = {"label": "label", "weights": "w"} if weighted else None
    for step, workers in ((1, 2), (7, 1), (128, 5), (129, 2), (500, 3), (10**6, 1)):
        cut = Recut(as_source(X, Y, **weights), step)
        assert_identical(build_in_blocks(cut, cores=workers, **options), core)
        if columns and step > 1:
            cut = Recut(as_source(path, **columns), step)
            assert_identical(build_in_blocks(cut, cores=workers, **options), core, ())


def test_seeds_decide_and_are_kept():
    cores = [build(X, Y, method="uniform", size=50, random_state=s) for s in (0, 1, np.random.default_rng(0), None)]
    assert len({tuple(core.index) for core in cores}) == 4
    for core in cores:
        again = build(X, Y, method="uniform", size=50, random_state=core.random_state)
        assert_identical(again, core)
    assert cores[0].random_state == 0


def test_what_a_coreset_says_of_itself():
    core = build(X, Y, method="sensitivity", size=60, weights=W, intercept=True, family="logistic")
    assert (core.n_total, core.method, core.family, core.random_state) == (N, "sensitivity", "logistic", 7)
    assert core.weight_total == pytest.approx(W.sum(), rel=1e-10)
    assert core.classes == ("no", "yes")
    assert core.feature_names == ("Intercept", "x0", "x1", "x2")
    assert core.X.shape[1] == 4
    assert 1 < len(core) <= 60
    np.testing.assert_array_equal(core.y, np.where(Y[core.index] == "yes", 1, -1))
    uniform = build(X, Y, method="uniform", size=60, weights=W, family="probit")
    assert len(uniform) == 60
    np.testing.assert_array_equal(uniform.weights, W[uniform.index] * (N / 60))
    assert uniform.family == "probit"


def test_auto_is_lossless_where_it_can_be_and_says_what_it_did():
    few = np.tile(X[:30], (20, 1)), np.tile(Y[:30], 20)
    assert build(*few).method == "aggregate"
    assert build(*few, size=100).params == {"lossless": True, "passes": 2}
    assert build(*few, size=100).weights.sum() == N
    assert build(X, Y, size=60).method == "calibrated"
    assert build(X, Y, size=60, family="probit").method == "calibrated"
    assert build(X, Y).method == "aggregate"  # not more rows than the limit


def test_sizes_asked_and_default():
    rng = np.random.default_rng(0)
    large, y = rng.normal(size=(3000, 2)), rng.integers(0, 2, 3000)
    assert len(build(large, y, method="uniform")) == 1000
    assert len(build(rng.normal(size=(3000, 60)), y, method="uniform")) == 1200
    assert len(build(X, Y, method="uniform")) == N
    everything = build(X, Y, method="uniform", size=N)
    np.testing.assert_array_equal(everything.index, np.arange(N))
    np.testing.assert_array_equal(everything.weights, np.ones(N))
    assert len(build(X, Y, method="uniform", size=np.int64(5))) == 5


def test_the_design_is_that_of_the_weighted_population():
    for weights in (np.ones(N), W):
        core = build(X, Y, weights=weights, method="uniform", size=80, intercept=True, standardize=True)
        mean = np.average(X, axis=0, weights=weights)
        sd = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
        np.testing.assert_allclose(core.design.center, mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(core.design.scale, sd, rtol=1e-9)
        np.testing.assert_array_equal(core.X, core.design.transform(X[core.index]))
        np.testing.assert_array_equal(core.X[:, 0], 1.0)
        np.testing.assert_allclose(core.X[:, 1:], ((X - mean) / sd)[core.index], rtol=1e-8, atol=1e-8)
        full = all_rows(X, Y, weights=weights, standardize=True, progressbar=False)
        np.testing.assert_allclose(np.average(full.X, axis=0, weights=weights), 0.0, atol=1e-9)
        np.testing.assert_allclose(np.average(full.X**2, axis=0, weights=weights), 1.0, rtol=1e-9)


_TELLS = pytest.param("auto", marks=pytest.mark.filterwarnings("ignore:columns 'x0', 'x3' depend"))


@pytest.mark.parametrize("method", ["uniform", "sensitivity", "leverage", "online", _TELLS])
def test_constant_and_collinear_columns(method):
    data = np.column_stack([X, X[:, 0], X[:, 0] + X[:, 1], np.full(N, 5.0)])
    with pytest.warns(UserWarning, match="column 'x5' is constant, as the intercept is.*drop it") as caught:
        core = build(data, Y, method=method, size=60, intercept=True)
    assert caught[0].filename == __file__
    assert core.X.shape[1] == 7
    core = build(data, Y, method=method, size=60, standardize=True)  # no intercept, no warning of a constant
    assert (core.design.center[5], core.design.scale[5]) == (0.0, 1.0)
    np.testing.assert_array_equal(core.X[:, 5], 5.0)
    np.testing.assert_array_equal(core.X[:, 3], core.X[:, 0])


def test_standardising_keeps_columns_far_from_zero():
    data = np.column_stack([X[:, 0] + 1e9, X[:, 1]])
    full = all_rows(data, Y, standardize=True, progressbar=False)
    np.testing.assert_allclose(full.X.std(axis=0), 1.0, rtol=1e-6)


# --- coresets of coresets, unions, all rows ---------------------------------------------------------------


@pytest.mark.parametrize("method", ["uniform", "sensitivity", "leverage", "online", "aggregate"])
def test_a_coreset_of_a_coreset_remembers_the_data(method):
    first = build(X, Y, method="uniform", size=300, weights=W, intercept=True, standardize=True)
    second = build(first, method=method, **({} if method == "aggregate" else {"size": 50}))
    assert (second.n_total, second.weight_total) == (N, first.weight_total)
    assert (second.design, second.classes, second.label) == (first.design, first.classes, first.label)
    assert set(second.index) <= set(first.index)
    np.testing.assert_array_equal(second.X, first.design.transform(X[second.index]))
    np.testing.assert_array_equal(second.y, np.where(Y[second.index] == "yes", 1, -1))
    if method == "aggregate":
        assert second.weights.sum() == pytest.approx(first.weights.sum())


def test_a_coreset_brings_its_own_labels_and_design():
    core = build(X, Y, method="uniform", size=100)
    for name, value in (("y", Y), ("label", "y"), ("weights", W)):
        with pytest.raises(ValueError, match=f"{name} is given, but data is a coreset"):
            build(core, **{name: value})
    for name in ("intercept", "standardize"):
        with pytest.raises(ValueError, match="belong to the raw data"):
            build(core, **{name: True})
    with pytest.raises(ValueError, match="size=101 must be between 1 and 100"):
        build(core, method="uniform", size=101)


def test_the_union_of_merged_blocks_merges_to_one_pass_over_all():
    data = X[:, 1:2]  # two distinct values
    parts = [build(data[cut], Y[cut], method="aggregate") for cut in (slice(0, 250), slice(250, N))]
    union = build(Coreset.concat(parts), method="aggregate")
    whole = build(data, Y, method="aggregate")
    for name in ("X", "y", "weights"):
        np.testing.assert_array_equal(getattr(union, name), getattr(whole, name))
    assert (union.n_total, union.weight_total) == (N, N)
    assert len(Coreset.concat(parts)) > len(union)


def test_all_rows_as_a_coreset(tmp_path):
    full = all_rows(FRAME.assign(w=W), label="label", weights="w", intercept=True, progressbar=False)
    np.testing.assert_array_equal(full.X[:, 1:], X)
    np.testing.assert_array_equal(full.weights, W)
    np.testing.assert_array_equal(full.index, np.arange(N))
    assert (full.method, full.n_total, full.params) == ("full", N, {})
    core = build(X, Y, method="sensitivity", size=60)
    core.save(tmp_path / "core.parquet")
    as_rows = all_rows(tmp_path / "core.parquet", label="y", weights="weight", progressbar=False)
    np.testing.assert_array_equal(as_rows.X, core.X)
    np.testing.assert_array_equal(as_rows.weights, core.weights)
    assert_identical(read_coreset(tmp_path / "core.parquet"), core)
    given = X.copy()
    kept = all_rows(given, Y, progressbar=False)
    given[:] = 0.0
    np.testing.assert_array_equal(kept.X, X)


# --- refusals ---------------------------------------------------------------------------------------------

REFUSED = {
    "method": ({"method": "lewis"}, ValueError, "method='lewis' is unknown; choose one of 'auto', 'uniform'"),
    "family": ({"family": "tweedy"}, ValueError, "family='tweedy' is unknown.*'logistic', 'probit'"),
    "option": ({"method": "uniform", "clusters": 3}, TypeError, "'clusters' is not an option of method='uniform'"),
    "misspelt": ({"method": "sensitivity", "cluster": 3}, TypeError, "'cluster' is not an option.*takes clusters, rad"),
    "size 0": ({"size": 0}, ValueError, "size=0 must be at least 1"),
    "size negative": ({"size": -5}, ValueError, "size=-5 must be at least 1"),
    "size too large": ({"size": N + 1}, ValueError, "size=601 must be between 1 and 600.*all_rows keeps them all"),
    "size a float": ({"size": 10.0}, TypeError, "size=10.0 must be a whole number"),
    "size text": ({"size": "many"}, TypeError, "size='many' must be a whole number"),
    "size and epsilon": (
        {"method": "sensitivity", "size": 50, "epsilon": 0.1},
        ValueError,
        "size=50 and epsilon=0.1 are both given",
    ),
    "size of aggregate": ({"method": "aggregate", "size": 5}, ValueError, "takes no size; size=5 was given"),
    "epsilon": ({"method": "sensitivity", "epsilon": 1.5}, ValueError, "epsilon=1.5 must be above 0 and below 1"),
    "delta": ({"method": "sensitivity", "epsilon": 0.5, "delta": 0}, ValueError, "delta=0 must be above 0 and below 1"),
    "probit": ({"method": "sensitivity", "family": "probit"}, ValueError, "bounds the logistic likelihood only"),
    "clusterings": (
        {"method": "sensitivity", "clusters": 2, "clustering": X[:2]},
        ValueError,
        "clusters and clustering are both given",
    ),
    "clustering": ({"method": "sensitivity", "clustering": X[:2, :2]}, DataError, "2 columns, but 3 features"),
    "radius": ({"method": "sensitivity", "radius": 0.0}, ValueError, "radius=0 must be positive"),
    "seed": ({"random_state": -1}, ValueError, "random_state=-1"),
    "seed too large": ({"random_state": 2**70}, ValueError, "random_state=.* must be between 0 and"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_bad_arguments_are_refused_with_the_remedy(kind):
    options, error, message = REFUSED[kind]
    with pytest.raises(error, match=message):
        build(X, Y, **options)


def test_arguments_are_checked_before_the_rows_are_read():
    class Untouchable:
        def __array__(self, *args, **kwargs):
            raise AssertionError("the data were read")

    for options in ({"method": "no"}, {"size": 0}, {"random_state": "x"}, {"family": 3}, {"nonsense": 1}):
        with pytest.raises((ValueError, TypeError)):
            build(Untouchable(), Y, **options)


def test_bad_rows_are_refused_whatever_the_method():
    bad = np.where((np.arange(N) == 431)[:, None] & (np.arange(3) == 1), np.nan, X)
    for method in METHODS:
        options = METHODS[method]
        with pytest.raises(DataError, match="column 'x1' is nan in row 431; drop such rows or impute"):
            build(bad, Y, **options)
        with pytest.raises(DataError, match="weights is -2 in row 3"):
            build(X, Y, weights=np.where(np.arange(N) == 3, -2.0, W), **options)


def test_a_column_named_intercept_is_refused_only_beside_an_intercept():
    frame = FRAME.rename(columns={"a": "Intercept"})
    assert build(frame, label="label", method="uniform", size=50).feature_names == ("Intercept", "b", "c")
    with pytest.raises(DataError, match="the data have a column 'Intercept'; drop it or leave intercept=False"):
        build(frame, label="label", intercept=True)


def test_a_coreset_of_one_class_is_warned_of():
    y = np.where(np.arange(N) == 0, 1, 0)
    with pytest.warns(UserWarning, match="all 5 rows of the coreset have one label.*larger size") as caught:
        build(X, y, method="uniform", size=5)
    assert caught[0].filename == __file__


INNER = {"sensitivity": (sensitivity_coreset, "bounds_of"), "aggregate": (aggregate, "merge_identical")}


@pytest.mark.parametrize("method", INNER)
def test_an_interrupted_build_leaves_nothing_running_and_no_file(method, tmp_path, monkeypatch):
    module, name = INNER[method]
    original, calls = getattr(module, name), []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 20:
            raise KeyboardInterrupt
        return original(*args)

    monkeypatch.setattr(module, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_in_blocks(X, Y, method=method, block_rows=10).save(tmp_path / "core.parquet")
    assert 20 <= len(calls) < 40
    assert not [t for t in threading.enumerate() if t.name.startswith("pass_")]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("build", [build_coreset, all_rows])
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (1e25, r"weights is 1e\+25 in row 0, above 1e\+15: a row of weight w counts as w rows"),
        (1e300, r"weights is 1e\+300 in row 0, above 1e\+15"),
        (1e13, r"weights sum to 2e\+15, above 1e\+15.*divide the weights so that they sum to the number of rows"),
    ],
)
def test_weights_at_which_posteriors_are_lost_in_rounding_are_refused(build, weight, message):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), np.arange(200) % 2
    with pytest.raises(DataError, match=message):
        build(X, y, weights=np.full(200, weight), progressbar=False)


def test_weights_up_to_the_limit_give_a_posterior():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    y = np.where(X[:, 0] + rng.logistic(size=1000) > 0, 1, 0)
    given = {"weights": np.full(1000, 9e11), "progressbar": False}
    modes = [find_map(rows) for rows in (all_rows(X, y, **given), build_coreset(X, y, **given, random_state=0))]
    assert np.abs((modes[1].beta - modes[0].beta) / modes[0].sd).max() < 0.1


@pytest.mark.parametrize("terms", ["", " + (1 | g)"])
@pytest.mark.parametrize("family", ["logistic", "cloglog", "poisson", "normal"])
def test_columns_in_small_units_have_the_same_rows_under_a_prior_in_these(family, terms):
    """The default prior is in units of the columns; one of 4 for all hides such a column."""
    rng, unit = np.random.default_rng(3), 1e-5
    rows = pd.DataFrame({"a": rng.normal(size=3000), "b": rng.random(3000), "g": rng.integers(0, 25, 3000)})
    eta = 0.8 * rows["a"] - rows["b"] + 0.4 * rng.normal(size=25)[rows["g"]]
    counts = rng.poisson(np.exp(eta))
    rows["y"] = {"poisson": counts, "normal": eta + rng.normal(size=3000)}.get(family, (counts > 0).astype(int))
    options = {"formula": f"y ~ a + b{terms}", "family": family, "random_state": 1, "progressbar": False}
    small = rows.assign(a=rows["a"] * unit)
    one, other = build_coreset(rows, **options), build_coreset(small, **options)
    np.testing.assert_allclose(other.X / [1.0, unit, 1.0], one.X, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.weights, one.weights, rtol=1e-6)
    if family != "normal":
        hidden = build_coreset(small, **options, prior=Normal(0.0, 4.0))
        assert len(hidden) != len(one) or not np.allclose(hidden.X / [1.0, unit, 1.0], one.X, rtol=1e-3)  # a control
