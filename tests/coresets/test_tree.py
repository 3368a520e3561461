"""Merge and reduce: the shape of the tree, what nodes lose, checkpoints."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import qmc

import bayescore as bc
from bayescore import find_map, read_stream
from bayescore.clustering.estimator import KVariates
from bayescore.coresets import drift, merge_reduce, online
from bayescore.coresets.merge_reduce import Tree, grow, leaf_size, node_delta, node_seed
from bayescore.coresets.method import DELTA, ReduceResult
from bayescore.data.dataset import Dataset
from bayescore.data.source import block_rows
from bayescore.data.sources import as_source
from bayescore.families.family import FAMILIES
from bayescore.files import write_checkpoint
from bayescore.methods import Calibrated, MergeReduce
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.moments import WeightedDraws, errors_between
from bayescore.types import WeightedData, stack
from bayescore.validation import DataError

pytestmark = [
    pytest.mark.filterwarnings("ignore:expect "),  # of coresets of 16 rows
    pytest.mark.filterwarnings("ignore:a hyperplane separates"),
]

N = 1500
_rng = np.random.default_rng(8)
X = _rng.normal([0.0, 2.0, -1.0], size=(N, 3))
Y = np.where(X[:, 0] + _rng.logistic(size=N) > 0, "yes", "no")
W = _rng.uniform(0.1, 6.0, N)
KINDS = ("calibrated", "condensed", "sensitivity", "leverage")


@pytest.fixture(autouse=True)
def blocks_of_100_rows(monkeypatch):
    """Canonical blocks of "online" are of 100 rows."""
    monkeypatch.setattr(online, "block_rows", lambda n_features: 100)


def stream_of(kind, **options):
    if kind == "online":
        return bc.stream("online", size=16, random_state=3, **options)
    return bc.stream(size=16, reducer=kind, random_state=3, leaf_rows=100, **options)


def fed(stream, low, high, step):
    for at in range(low, high, step):
        part = slice(at, min(high, at + step))
        stream.partial_fit(X[part], Y[part], W[part])
    return stream


def assert_identical(a, b):
    for name in ("X", "y", "weights", "index", "offset"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in ("classes", "n_total", "weight_total", "method", "family", "random_state", "design", "label"):
        assert getattr(a, name) == getattr(b, name), name
    assert {k: v for k, v in a.params.items() if k != "passes"} == {k: v for k, v in b.params.items() if k != "passes"}


# --- shape --------------------------------------------------------------------------------------------------


class Counting:
    """Keeps every row, loses 0.5, and writes down what it was asked."""

    def __init__(self, anchored):
        self.anchored = anchored

    def check_size(self, size, n_features):
        pass

    def reduce(self, rows, request):
        calls.append((request.seed, request.delta, len(rows), request.anchor))
        return ReduceResult(rows, 0.5, anchor=np.array([float(len(rows))]) if self.anchored else None)


calls = []


@pytest.mark.parametrize("anchored", [False, True])
def test_shape_anchors_and_losses(anchored):
    calls.clear()
    state = Tree(Counting(anchored), 0, "logistic", 5)
    for leaf in range(200):
        block = WeightedData(np.full((1, 1), leaf), np.ones(1, dtype=np.int8), np.ones(1), np.array([leaf]))
        state = state.absorb(state.reduced_leaf(leaf, block))
        assert state.n_leaves == leaf + 1
        levels = [node.level for node in state.nodes]
        assert sum(2**level for level in levels) == leaf + 1
        assert levels == sorted(set(levels), reverse=True)  # so at most log2(leaves) + 1 of them
        assert np.concatenate([node.rows.index for node in state.nodes]).tolist() == list(range(leaf + 1))
        # of the first 2^j leaves
        assert (state.anchor[0] == 2 ** int(math.log2(leaf + 1))) if anchored else state.anchor is None
        for node in state.nodes:
            lost = 0.5 * (node.level + 1) if anchored else 1.5 ** (node.level + 1) - 1
            assert node.loss == pytest.approx(lost) == state.losses[node.level]
    seeds, deltas, sizes, anchors = zip(*calls, strict=True)
    assert len(calls) == 200 + 197  # 200 leaves; 200 less the ones in binary 200 merged nodes
    assert len(set(seeds)) == len(calls)
    shares = sorted(deltas, reverse=True)
    np.testing.assert_allclose(shares, [DELTA * 6 / (math.pi * n) ** 2 for n in range(1, len(calls) + 1)])
    assert list(deltas) == shares  # in the order of a stream
    whole = [size for size, anchor in zip(sizes, anchors, strict=True) if anchor is None]
    assert whole == [1, 2, 4, 8, 16, 32, 64, 128] or not anchored  # these look for a new anchor


def test_seeds_and_shares_do_not_depend_on_who_reduces_when():
    source = as_source(WeightedData(X, np.where(Y == "yes", 1, -1).astype(np.int8), W, np.arange(N)))
    empty = Tree(Calibrated(), 64, "logistic", 3)
    parallel, rest = grow(Dataset(source), empty, 100)
    assert rest is None
    state = empty
    for leaf in range(15):
        state = state.absorb(state.reduced_leaf(leaf, next(source.rows(100 * leaf, 100 * leaf + 100))))
    for mine, theirs in zip(state.nodes, parallel.nodes, strict=True):
        np.testing.assert_array_equal(mine.rows.weights, theirs.rows.weights)
        np.testing.assert_array_equal(mine.rows.index, theirs.rows.index)
    np.testing.assert_array_equal(state.anchor, parallel.anchor)
    assert state.losses == parallel.losses
    assert node_seed(3, 0, 5) != node_seed(3, 1, 5) != node_seed(4, 1, 5)


def test_default_leaves_are_blocks_or_hold_several_nodes():
    assert leaf_size(100, block_rows(10)) == 1 << 16
    assert leaf_size(20_000, block_rows(10)) == 320_000


# --- streams and checkpoints --------------------------------------------------------------------------------


@pytest.mark.essential("trees of every method, however they are fed")
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [7, 100, 333, 1500])
def test_however_it_is_fed_the_coreset_is_that_of_one_pass(kind, step, intercept):
    core = fed(stream_of(kind, intercept=intercept), 0, 1450, step).coreset()
    whole = bc.build_coreset(
        X[:1450],
        Y[:1450],
        weights=W[:1450],
        method="merge_reduce",
        reducer=kind,
        size=16,
        leaf_rows=100,
        intercept=intercept,
        random_state=3,
        progressbar=False,
    )
    assert_identical(core, whole)
    assert core.params["leaves"] == 14
    assert len(core) <= 16


@pytest.mark.parametrize("kind", KINDS)
def test_ask_and_go_on(kind):
    stream = fed(stream_of(kind), 0, 700, 50)
    first = stream.coreset()
    assert first.n_total == 700
    assert_identical(stream.coreset(), first)
    assert_identical(fed(stream, 700, N, 50).coreset(), fed(stream_of(kind), 0, N, 50).coreset())


@pytest.mark.parametrize("kind", [*KINDS, "online"])
@pytest.mark.parametrize("cut", [30, 730, 1400])  # before the first leaf, within one, at the end of one
def test_a_resumed_stream_gives_the_same_bits(kind, cut, tmp_path):
    path = tmp_path / "stream.ckpt"
    stream = fed(stream_of(kind, intercept=True), 0, cut, 10)
    stream.save(path)
    resumed = read_stream(path)
    assert resumed.n_rows == cut
    assert_identical(resumed.coreset(), stream.coreset())
    assert_identical(fed(resumed, cut, N, 90).coreset(), fed(stream, cut, N, 10).coreset())
    with pytest.raises(DataError, match=r"block .* has 2 columns, the blocks before it 3"):
        resumed.partial_fit(X[:5, :2], Y[:5])


@pytest.mark.parametrize("kind", ["calibrated", "online"])
def test_a_source_that_fails_is_resumed_from_its_checkpoint(kind, tmp_path):
    path = tmp_path / "stream.ckpt"

    def blocks(broken):
        for number in range(60):
            if number == 37 and broken:
                raise ConnectionError("the line is dead")
            part = slice(25 * number, 25 * number + 25)
            yield X[part], Y[part], W[part]

    def run(stream, broken):
        skip = stream.n_rows
        for number, (x, y, w) in enumerate(blocks(broken)):
            if 25 * number >= skip:
                stream.partial_fit(x, y, w)
                if number % 10 == 0:
                    stream.save(path)
        return stream.coreset()

    with pytest.raises(ConnectionError):
        run(stream_of(kind), broken=True)
    assert [file.name for file in tmp_path.iterdir()] == ["stream.ckpt"]
    resumed = read_stream(path)
    assert resumed.n_rows == 31 * 25
    assert_identical(run(resumed, broken=False), run(stream_of(kind), broken=False))


def test_a_checkpoint_keeps_labels_and_names(tmp_path):
    import pandas as pd

    stream = bc.stream(size=16, family="probit", random_state=1)
    stream.partial_fit(pd.DataFrame(X[:60], columns=["a", "b", "c"]), [True] * 60)
    stream.save(tmp_path / "s")
    core = (
        read_stream(tmp_path / "s")
        .partial_fit(pd.DataFrame(X[60:120], columns=["a", "b", "c"]), [False] * 60)
        .coreset()
    )
    assert core.classes == (False, True)
    assert core.feature_names == ("a", "b", "c")
    assert core.family == "probit"
    write_checkpoint(tmp_path / "other", "Posterior", {}, {})
    with pytest.raises(
        DataError, match=r"is a checkpoint of Posterior, not of StreamingCoreset; load it with Posterior"
    ):
        read_stream(tmp_path / "other")


def test_a_checkpoint_of_another_version_is_told(tmp_path, monkeypatch):
    stream = fed(stream_of("calibrated"), 0, 250, 50)
    monkeypatch.setattr("bayescore.coresets.stream.version", lambda name: "0.0.1")
    stream.save(tmp_path / "s")
    monkeypatch.undo()
    with pytest.warns(UserWarning, match=r"was written by bayescore 0\.0\.1"):
        read_stream(tmp_path / "s")


def test_a_block_that_cannot_be_used_leaves_the_stream_as_it_was():
    stream = fed(stream_of("calibrated"), 0, 730, 50)
    before = stream.coreset()
    for x, y in ((np.full((2, 3), np.nan), Y[:2]), (X[:2], ["maybe", "yes"]), (X[:2], Y[:3])):
        with pytest.raises(DataError, match="block 15"):
            stream.partial_fit(x, y)
    assert_identical(stream.coreset(), before)


@pytest.mark.slow
@pytest.mark.parametrize(
    "reducer",
    [
        bc.methods.Leverage(scores="sketch"),
        bc.methods.Sensitivity(clusters=2, clustering="d-means++"),
        Calibrated(prior=bc.priors.StudentT(4.0, 0.0, (0.5, 1.0, 2.0))),
        bc.methods.Condensed(prior=bc.priors.Normal(0.0, 0.5)),
    ],
    ids=lambda reducer: reducer.name,
)
def test_trees_reduce_by_a_method_with_options(reducer, tmp_path):
    built = bc.build_coreset(
        X, Y, method=MergeReduce(reducer, leaf_rows=100), weights=W, size=16, random_state=3, progressbar=False
    )
    assert built.params["reducer"].startswith(f"{reducer.name}({next(iter(reducer.given))}=")
    assert not np.array_equal(built.weights, fed(stream_of(reducer.name), 0, N, 130).coreset().weights)
    stream = fed(stream_of(reducer), 0, 730, 130)
    stream.save(tmp_path / "s")
    again = fed(read_stream(tmp_path / "s"), 730, N, 70).coreset()
    assert_identical(again, fed(stream, 730, N, 700).coreset())
    assert_identical(again, built)
    # a stream, which does not know the columns' sds at first, has this default prior
    known = {"prior": bc.priors.Normal(0.0, 4.0)} if "prior" in reducer.given else {}
    plain = MergeReduce(type(reducer)(**known), leaf_rows=100)
    of_rows = bc.build_coreset(X, Y, method=plain, weights=W, size=16, random_state=3, progressbar=False)
    of_blocks = fed(stream_of(reducer.name), 0, N, 130).coreset()
    of_rows.params["reducer"] = of_rows.params["reducer"] if not known else of_blocks.params["reducer"]
    assert_identical(of_rows, of_blocks)


class Doubting(Calibrated):
    """Calibrated, but twice as wrong."""

    def build(self, dataset, size, seed, family):
        own = super().build(dataset, size, seed, family)
        return replace(own, info=replace(own.info, mean_error=2.0 * own.info.mean_error, sd_error=10.0))


def test_the_answer_is_that_of_the_method_which_reduces():
    narrow = Calibrated(prior=bc.priors.Normal(0.0, 0.01))
    tree = bc.build_coreset(X, Y, method=MergeReduce(narrow, leaf_rows=400), size=30, random_state=1, progressbar=False)
    wide = bc.build_coreset(X, Y, method=MergeReduce(leaf_rows=400), size=30, random_state=1, progressbar=False)
    assert tree.params["prior"] == repr(narrow.prior)
    assert wide.params["prior"] == repr(bc.priors.Normal(0.0, 4.0))

    def miss(core, prior):
        full = find_map(bc.all_rows(X, Y, progressbar=False), prior=prior)
        return np.abs((find_map(core, prior=prior).beta - full.beta) / full.sd).max()

    assert miss(tree, narrow.prior) < 0.01 < miss(wide, narrow.prior)  # met at the mode of one prior, and not the other
    # all rows fit one node, so that the errors are those of the answer alone
    given = {"size": 30, "random_state": 1, "progressbar": False}
    mine, twice = (
        bc.build_coreset(X[:100], Y[:100], method=MergeReduce(kind()), **given) for kind in (Calibrated, Doubting)
    )
    assert mine.params["tree_error"] == 0.0
    assert twice.params["mean_error"] == 2.0 * mine.params["mean_error"] > 0.0
    assert twice.params["sd_error"] == 10.0
    np.testing.assert_array_equal(mine.weights, twice.weights)


def test_methods_that_no_tree_reduces_by(tmp_path):
    for reducer, message in (
        (bc.methods.Uniform(), r"reducer=Uniform\(\) cannot reduce nodes; give Calibrated or Condensed or Sensitivity"),
        (Calibrated(tolerance=0.1), r"reducer=calibrated\(tolerance=0.1\): nodes have a size; leave tolerance=0.1 out"),
        (7, "reducer=7 is unknown; choose one of 'calibrated'"),
    ):
        with pytest.raises(ValueError, match=message):
            MergeReduce(reducer)
    for reducer, message in (
        (bc.methods.Sensitivity(clustering=KVariates(3)), "a checkpoint cannot hold clustering"),
        (Doubting(), "is not registered: a checkpoint could not be read back"),
    ):
        with pytest.raises(TypeError, match=message):
            bc.stream(size=10, reducer=reducer).partial_fit(X, Y).save(tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


def test_memory_is_a_leaf_and_the_live_nodes():
    stream = fed(stream_of("calibrated"), 0, 1350, 10)
    assert len(stream._cutter.rest) == 50
    assert len(stream._state.tree.nodes) == 3  # 13 = 8 + 4 + 1
    assert all(len(node.rows) <= 4 * 16 for node in stream._state.tree.nodes)


def test_refusals(tmp_path):
    for options, message in (
        ({"reducer": "uniform"}, "reducer='uniform' is unknown; choose one of 'calibrated', 'condensed', 'sens"),
        (
            {"family": "probit", "reducer": "sensitivity"},
            "bounds the logistic likelihood only; .* use 'calibrated'",
        ),
        ({"leaf_rows": 0}, "leaf_rows=0 must be between 1 and 2147483648"),
        ({"size": 0}, "size=0 must be at least 1"),
        ({"family": "gompit"}, "family='gompit' is unknown"),
    ):
        given = {"family": "logistic", "size": 10, **options}
        with pytest.raises(ValueError, match=message):
            bc.stream(**given)
        if given["size"]:
            with pytest.raises(ValueError, match=message):
                bc.build_coreset(X, Y, method="merge_reduce", progressbar=False, **given)
    with pytest.raises(
        TypeError, match=r"'tolerance' is not an option of method='merge_reduce', which takes reducer, leaf_rows"
    ):
        bc.build_coreset(X, Y, method="merge_reduce", tolerance=0.1, progressbar=False)
    with pytest.raises(TypeError, match="intercept='no' must be True or False"):
        bc.stream(size=10, intercept="no")
    with pytest.raises(
        ValueError, match=r"method='uniform' takes no stream; give one of 'online', 'multi.*'merge_reduce'"
    ):
        bc.stream("uniform", size=10)
    stream = bc.stream(size=10, intercept=np.True_)
    for verb in (stream.coreset, lambda: stream.save(tmp_path / "s")):
        with pytest.raises(RuntimeError, match="no block has come yet"):
            verb()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match=r"only the label 'yes' .* name both in stream\(..., classes=\)"):
        stream.partial_fit(X[:2], ["yes", "yes"]).coreset()


# --- what nodes lose ----------------------------------------------------------------------------------------


def pinned(seed):
    """Return a generator of the same rows under every shift: limits of errors below are those of these data sets."""
    return np.random.Generator(np.random.PCG64(seed))


def large(n=32_000, seed=0):
    rng = pinned(seed)
    rows = np.column_stack([np.ones(n), rng.normal(size=(n, 3)), rng.random(n) < 0.02])
    eta = rows @ np.array([-2.0, 1.0, -0.5, 0.3, 1.0])
    return rows, np.where(eta + rng.logistic(size=n) > 0, 1, 0)


def errors(core, full):
    """Return the largest distance of modes, in posterior sds, and relative error of the sds there."""
    mine, theirs = find_map(core), find_map(full)
    return np.abs((mine.beta - theirs.beta) / theirs.sd).max(), np.abs(mine.sd / theirs.sd - 1).max()


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("kind", ["sensitivity", "leverage"])
def test_plain_trees_are_unbiased(kind):
    """Weighted sums have the sums over all rows as expectation, whatever the height; not so without the weights.

    Rate: five z-scores within 6, by Student's t with 99 degrees of freedom 3e-8 each.
    """
    rows, labels = large(2000)
    full = bc.all_rows(rows, labels, progressbar=False)
    sums, counts = [], []
    for seed in range(100):
        core = bc.build_coreset(
            full, method="merge_reduce", reducer=kind, size=40, leaf_rows=250, random_state=seed, progressbar=False
        )
        sums.append(core.weights @ core.Z)
        counts.append(core.Z.mean(axis=0) * len(full))
    z, wrong = (
        (np.mean(a, axis=0) - full.Z.sum(axis=0)) / (np.std(a, axis=0) / math.sqrt(100)) for a in (sums, counts)
    )
    assert np.abs(z).max() < 6.0
    assert np.abs(wrong).max() > 6.0


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_calibrated_errors_do_not_pile_up(family):
    """Seven levels lose no more than two; the worst of 30 seeds is 0.03 sd, where plain trees lose 3 to 10 sds."""
    full = bc.all_rows(*large(), family=family, progressbar=False)
    options = {"method": "merge_reduce", "size": 100, "random_state": 1, "progressbar": False}
    for leaf_rows in (16_000, 250):
        core = bc.build_coreset(full, leaf_rows=leaf_rows, **options)
        mean, sd = errors(core, full)
        assert mean < 0.1
        assert sd < 0.15
        assert core.params["leaves"] == 32_000 // leaf_rows
    assert len(core.params["levels"]) == 8
    assert max(level["residual"] for level in core.params["levels"]) < 1.0
    plain = bc.build_coreset(full, leaf_rows=250, reducer="leverage", **options)
    assert errors(plain, full)[0] > 0.5


ORDERS = {
    "as drawn": lambda rows, labels: np.arange(len(labels)),
    "by a column": lambda rows, labels: np.argsort(rows[:, 1]),
    "a rare column last": lambda rows, labels: np.argsort(rows[:, 4], kind="stable"),
    "by label": lambda rows, labels: np.argsort(labels, kind="stable"),
    "by both": lambda rows, labels: np.lexsort((labels, rows[:, 4])),
}


@pytest.mark.parametrize("family", ["logistic", "probit"])
@pytest.mark.parametrize("order", ORDERS)
def test_what_the_tree_loses_is_predicted(order, family):
    """Errors from 0.003 sd as drawn to 70 sds where leaves of one label come first: told before anybody is misled."""
    rows, labels = large()
    which = ORDERS[order](rows, labels)
    full = bc.all_rows(rows[which], labels[which], family=family, progressbar=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        core = bc.build_coreset(
            full, method="merge_reduce", leaf_rows=1000, size=100, random_state=2, progressbar=False
        )
    found, expected = errors(core, full)[0], core.params["mean_error"]
    assert any(str(w.message).startswith("expect ") for w in caught) == (expected > 0.1)
    if found > 0.3:  # so far off no linear theory holds
        assert expected > 0.3
    else:
        assert found / 5 < expected < 20 * found
    assert (expected < 0.03) == (order == "as drawn" or (order == "by a column" and family == "logistic"))
    assert (found > 0.2) == (order in ("by label", "by both"))


@pytest.mark.parametrize("family", ["logistic", "probit"])
@pytest.mark.parametrize("order", ORDERS)
def test_what_a_tree_of_pseudo_rows_loses_is_predicted(order, family, monkeypatch):
    """Two rows a column, nothing random: errors from 0.01 sd as drawn to many sds; without what nodes lose not seen.

    Predictions are 1.0 to 5.6 times what is found, which is known to 2%.
    """
    rows, labels = large()
    which = ORDERS[order](rows, labels)
    full = bc.all_rows(rows[which], labels[which], family=family, progressbar=False)
    options = {"method": "merge_reduce", "reducer": "condensed", "leaf_rows": 1000, "size": 10, "random_state": 2}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        core = bc.build_coreset(full, progressbar=False, **options)
    assert len(core) == 10
    expected = core.params["mean_error"]
    assert any(str(w.message).startswith("expect ") for w in caught) == (expected > 0.1)
    assert (expected < 0.1) == (order == "as drawn")
    moved = errors(core, full)[0]
    if order in ("as drawn", "by a column"):
        found = mean_errors(core, full)
        assert found / 2 < expected < 8 * found
    else:
        assert moved > 0.3
        assert expected > 0.3
    if order == "by label":
        monkeypatch.setattr(Tree, "errors_at", lambda *_: ())
        assert bc.build_coreset(full, progressbar=False, **options).params["mean_error"] < moved / 5


def mean_errors(core, full):
    """Return the largest error of a posterior mean, in sds, from weighted quasi-random draws about the mode."""
    prior, family = bc.priors.Normal(0.0, 4.0), FAMILIES[full.family]
    mode = find_map(full, prior=prior)
    z = qmc.MultivariateNormalQMC(np.zeros(full.n_features), seed=pinned(1)).random(2048)
    draws = mode.beta + z @ mode.factor.T
    base = prior.log_density(draws) + 0.5 * (z**2).sum(axis=1)
    own, true = (WeightedDraws(draws, log_likelihoods(draws, rows, family) + base) for rows in (core, full))
    assert min(own.ess, true.ess) > 1000
    return errors_between(own, true).mean


def test_pseudo_rows_need_two_rows_a_column():
    stream = bc.stream(size=5, reducer="condensed")
    for build in (
        lambda: stream.partial_fit(X, Y),
        lambda: bc.build_coreset(X, Y, method="merge_reduce", reducer="condensed", size=5, progressbar=False),
    ):
        with pytest.raises(ValueError, match=r"size=5 is less than two rows.* give at least 6"):
            build()
    assert stream.n_rows == 0


def test_too_few_rows_to_predict_from():
    rows, labels = large(4000)
    with pytest.warns(UserWarning, match="what the tree loses cannot be told from so few rows"):
        bc.build_coreset(rows, labels, method="merge_reduce", leaf_rows=500, size=5, random_state=2, progressbar=False)


def drifting(n=32_000):
    """The first slope moves by 2 from the first row to the last."""
    rows, _ = large(n)
    eta = rows @ np.array([-2.0, 1.0, -0.5, 0.3, 1.0]) + 2.0 * (np.linspace(0, 1, n) - 0.5) * rows[:, 1]
    return rows, np.where(eta + pinned(1).logistic(size=n) > 0, 1, 0)


def sparse(n=32_000):
    """Indicators of 1%, so that rows repeat."""
    rng = pinned(3)
    rows = np.column_stack([np.ones(n), rng.random((n, 12)) < 0.02])
    return rows, np.where(rows @ np.linspace(-1, 1, 13) + rng.logistic(size=n) > 0, 1, 0)


def z_scores(rows, labels, leaf_rows, *, size=400, seeds=24):
    """Return errors of the modes of trees' nodes, of `size` rows, over what they predict for each coordinate.

    The second array is of predictions that leave out what nodes carry.
    """
    full = bc.all_rows(rows, labels, progressbar=False)
    truth, found = find_map(full), ([], [])
    for seed in range(seeds):
        state, rest = grow(Dataset(full.as_source()), Tree(Calibrated(), size, "logistic", seed), leaf_rows)
        union = stack([*(node.rows for node in state.nodes), *([] if rest is None else [rest])])
        mode = find_map(union, "logistic")
        for nodes, z in zip((state.nodes, [replace(node, carried=()) for node in state.nodes]), found, strict=True):
            covariance = sum(part.covariance for node in nodes for part in state.errors_at(node, mode.beta))
            z.append((mode.beta - truth.beta) / np.sqrt(np.diagonal(mode.covariance @ covariance @ mode.covariance)))
    return np.array(found)


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("leaves", [32, 63])
def test_predicted_errors_have_the_right_size(leaves):
    """Root mean squares of z over 24 seeds and 5 coordinates; without what nodes carry they are too small.

    Over 36 seeds mean squares are 0.63 and 0.65, those of 24 seeds have an sd of 0.12 at most, as chi-squared with 62
    degrees of freedom: below 0.4^2 or above 1.25^2 they lie in 1e-8. The control's are 4.2 and far more; of 24 seeds it
    has a logarithm with an sd of 0.19: 1.25^2 is 5 sds away.
    """
    rows, labels = drifting()
    z, forgotten = z_scores(rows, labels, 32_000 // leaves)
    assert 0.4 < np.sqrt((z**2).mean()) < 1.25
    assert np.sqrt((forgotten**2).mean()) > 1.25


def in_sample(rows, anchor, theta, family, prior):
    """Return the covariance of residuals of a fit to all rows, over the share of rows that the fit leaves."""
    white, part = drift.scale_at(rows, anchor, family, prior)
    x = drift.Totals.at(white, part, len(rows)).shares(rows)
    x = x._replace(forms=x.forms[: max(0, len(rows) // 2 - len(x.stacked()) + len(x.forms))]).stacked().T
    scores = (rows.weights * family.score(rows.X @ theta, rows.y))[:, None] * rows.X
    x = x / np.abs(x).max(axis=0)
    residuals = scores - x @ np.linalg.lstsq(x, scores)[0]
    return len(rows) / (len(rows) - x.shape[1]) * residuals.T @ residuals


def settled(n=4000):
    """Rows of one model, with an indicator that few nodes of 60 rows have much of."""
    rng = pinned(0)
    rows = np.column_stack([np.ones(n), rng.normal(size=(n, 3)), rng.random(n) < 0.1])
    eta = rows @ np.array([-1.0, 1.0, -0.5, 0.3, 1.0])
    return rows, np.where(eta + rng.logistic(size=n) > 0, 1, 0)


@pytest.mark.slow
@pytest.mark.statistical(rate=5e-6)
@pytest.mark.parametrize("size", [60, 80])
def test_small_nodes_do_not_understate_their_errors(size, monkeypatch):
    """Mean squares of z over 24 seeds x 5 coordinates, nodes of 12 and 16 rows a column.

    Over 72 and 24 seeds they were 0.9 and 1.0, the mean of 24 has an sd of 0.2, as chi-squared with 46 degrees of
    freedom: above 2.4 it lies in 7e-9 and 3.3e-7, below 0.2 in 6e-9 and 9e-10. A seed in some thirty has a node of too
    few rows to tell. Negative control, 48 seeds: residuals of a fit to all rows, which has up to half as many totals.
    It shows in nodes of 12 rows a column, where a seed's mean square is 4.6, with an sd of 3.9: the mean of 48, as
    chi-squared with 134 degrees of freedom, is missed in 1e-6.
    """
    rows, labels = settled()
    z, _ = z_scores(rows, labels, 250, size=size)
    assert np.isnan(z).any(axis=1).sum() < 8
    assert 0.2 < np.nanmean(z**2) < 2.4
    if size == 60:
        monkeypatch.setattr(drift, "score_covariance", in_sample)
        assert np.nanmean(z_scores(rows, labels, 250, size=size, seeds=48)[0] ** 2) > 2.4


def test_identical_rows_are_merged_and_nothing_is_lost():
    rows, labels = sparse()
    full = bc.all_rows(rows, labels, progressbar=False)
    core = bc.build_coreset(full, method="merge_reduce", leaf_rows=1000, size=260, random_state=0, progressbar=False)
    assert errors(core, full)[0] < 2 * core.params["mean_error"] + 0.01
    few = bc.all_rows(np.round(rows[:, :6]), labels, progressbar=False)
    exact = bc.build_coreset(few, method="merge_reduce", leaf_rows=1000, size=120, random_state=0, progressbar=False)
    assert errors(exact, few)[0] < 1e-6
    assert exact.params["tree_error"] == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_leaves_of_zeros(kind):
    rows, labels = X.copy(), Y.copy()
    rows[:600] = 0.0
    stream = stream_of(kind)
    core = stream.partial_fit(rows, labels).coreset()
    assert N / 5 < core.weights.sum() < 5 * N


@pytest.mark.parametrize("kind", ["calibrated", "online"])
def test_an_interrupt_leaves_the_stream_as_it_was(kind, monkeypatch):
    stream, twin = fed(stream_of(kind), 0, 730, 50), fed(stream_of(kind), 0, 730, 50)
    kind_of_state, calls = type(stream._state), []
    absorbed = kind_of_state.absorbed

    def interrupted(self, block):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return absorbed(self, block)

    monkeypatch.setattr(kind_of_state, "absorbed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fed(stream, 730, N, 700)
    monkeypatch.setattr(kind_of_state, "absorbed", absorbed)
    assert stream.n_rows == 730
    assert_identical(fed(stream, 730, N, 90).coreset(), fed(twin, 730, N, 90).coreset())


def test_unscaled_columns():
    rng = np.random.default_rng(5)
    rows = np.column_stack([np.ones(4000), rng.integers(1990, 2010, 4000), rng.uniform(5e5, 6e5, 4000)])
    labels = rng.random(4000) < 0.4
    full = bc.all_rows(rows, labels, progressbar=False)
    core = bc.build_coreset(full, method="merge_reduce", leaf_rows=500, size=60, random_state=0, progressbar=False)
    assert errors(core, full)[0] < 0.3


def test_epsilons_by_level():
    options = {"method": "merge_reduce", "reducer": "sensitivity", "leaf_rows": 100, "random_state": 0}
    core = bc.build_coreset(X, Y, size=200, progressbar=False, **options)
    assert [level["epsilon"] for level in core.params["levels"]] == [0.0] * 4  # 800 rows are kept as they are
    own = core.params["epsilon"]
    core = bc.build_coreset(X, Y, size=20, progressbar=False, **options)
    found = [level["epsilon"] for level in core.params["levels"]]
    assert found == sorted(found)
    assert found[0] > 0
    assert core.params["epsilon"] > (1 + found[-1]) * (1 + own) - 1
    assert core.params["delta"] == DELTA
    assert "radius" in core.params


def test_trees_by_leverage_have_no_epsilon():
    core = bc.build_coreset(X, Y, method="merge_reduce", reducer="leverage", size=20, leaf_rows=100, progressbar=False)
    assert "epsilon" not in core.params
    assert "levels" not in core.params


def test_few_rows_are_kept_as_they_are():
    core = bc.build_coreset(X[:15], Y[:15], method="merge_reduce", size=15, random_state=0, progressbar=False)
    assert (core.weights == 1).all()
    assert len(core) == 15
    assert stack([core]).index.tolist() == list(range(15))
    assert node_delta(merge_reduce._TOP, 0) > 0
