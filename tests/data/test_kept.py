"""Rows that are left out or stand for two: counts, weights of 0, missing values, from every source and cut alike."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bayescore as bc
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.validation import DataError
from tests.hand_made import fit_of

N = 5000
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 2))
ETA = -0.3 + X @ [0.8, -0.5]
TRIALS = RNG.integers(0, 9, N)
SUCCESSES = RNG.binomial(TRIALS, 1 / (1 + np.exp(-ETA)))
Y = np.where(RNG.random(N) < 1 / (1 + np.exp(-ETA)), "yes", "no")
W = np.where(np.arange(N) % 5 == 0, 0.0, RNG.uniform(0.5, 2.0, N))
HOLES = X.copy()
HOLES[RNG.random(N) < 0.1, 0] = np.nan
HOLES[RNG.random(N) < 0.05, 1] = np.nan
FRAME = pd.DataFrame(X, columns=["a", "b"]).assign(y=Y, w=W, s=SUCCESSES, n=TRIALS)
QUIET = {"progressbar": False}


def kinds(frame, folder):
    frame.to_parquet(folder / "rows.parquet", row_group_size=700)
    return {
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "arrow": pa.Table.from_pandas(frame).combine_chunks(),
        "parquet": folder / "rows.parquet",
        "dask": dd.from_pandas(frame, npartitions=6),
        "dask of files": dd.read_parquet(folder / "rows.parquet"),
    }


def assert_same(found, expected, kind):
    for name in ("X", "y", "weights", "index"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=f"{kind}: {name}")
    assert (found.n_total, found.weight_total) == (expected.n_total, expected.weight_total)


# --- counts --------------------------------------------------------------------------------------------------


def spelt_out():
    """Return a row for each trial."""
    rows = np.repeat(np.arange(N), TRIALS)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(TRIALS) - TRIALS, TRIALS)
    return X[rows], (place < SUCCESSES[rows]).astype(int)


def test_counts_are_the_trials_one_by_one():
    core = bc.all_rows(X, SUCCESSES, trials=TRIALS, intercept=True, **QUIET)
    assert core.weight_total == TRIALS.sum()
    assert (core.classes, core.label) == ((0, 1), "y")
    assert len(core) == np.count_nonzero(SUCCESSES) + np.count_nonzero(TRIALS - SUCCESSES)
    each = bc.all_rows(*spelt_out(), intercept=True, **QUIET)
    for family in ("logistic", "probit"):
        np.testing.assert_allclose(bc.find_map(core, family).beta, bc.find_map(each, family).beta, atol=1e-8)
    weighted = bc.all_rows(X, SUCCESSES, trials=TRIALS, weights=np.full(N, 2.0), **QUIET)
    assert weighted.weight_total == 2 * TRIALS.sum()


@pytest.mark.parametrize("method", ["uniform", "calibrated", "aggregate", "leverage", "merge_reduce"])
@pytest.mark.filterwarnings("ignore")
def test_counts_from_every_source_give_the_same_bits(method, tmp_path):
    options = {"method": method, "random_state": 2, **QUIET, **({} if method == "aggregate" else {"size": 60})}
    expected = bc.build_coreset(X, SUCCESSES, trials=TRIALS, **options)
    for kind, data in kinds(FRAME[["a", "b", "s", "n"]], tmp_path).items():
        assert_same(bc.build_coreset(data, label="s", trials="n", **options), expected, kind)
    beside = bc.build_coreset(FRAME[["a", "b"]], SUCCESSES, trials=TRIALS, **options)
    assert_same(beside, expected, "arrays beside a frame")
    cuts = [slice(i, i + 613) for i in range(0, N, 613)]
    blocks = bc.build_coreset(lambda: ((X[c], SUCCESSES[c], None, None, TRIALS[c]) for c in cuts), **options)
    assert_same(blocks, expected, "blocks")


def test_counts_with_offsets_are_certified():
    offset = RNG.normal(size=N)
    counts = RNG.binomial(TRIALS, 1 / (1 + np.exp(-ETA - offset)))
    told = {"trials": TRIALS, "offset": offset, **QUIET}
    core = bc.build_coreset(X, counts, size=100, intercept=True, random_state=1, **told)
    idata = bc.sample(core, sampler="mala", random_seed=1, **QUIET)
    found = bc.certify(idata, core, X, counts, **told)
    assert found.level == "certified"


COUNTS = {
    "above": (
        np.where(np.arange(N) < 3, 10, SUCCESSES),
        TRIALS,
        "y is above trials in 3 of rows .* first 10 in row 0",
    ),
    "fractions": (SUCCESSES + 0.5 * (np.arange(N) == 7), TRIALS, "y is no count in 1 of rows .* in row 7"),
    "negative": (SUCCESSES, TRIALS - 20 * (np.arange(N) == 4), "trials is no count in 1 .* first -.* in row 4"),
    "missing": (SUCCESSES, np.where(np.arange(N) == 9, np.nan, TRIALS), "trials is no count .* first nan in row 9"),
    "text": (Y, TRIALS, "y must be numbers"),
    "too few": (SUCCESSES, TRIALS[1:], r"trials has shape \(4999,\)"),
    "a name": (SUCCESSES, "n", "trials='n' names a column, but data is an array"),
}


@pytest.mark.parametrize("kind", COUNTS)
def test_counts_that_cannot_be(kind):
    successes, trials, message = COUNTS[kind]
    with pytest.raises(DataError, match=message):
        bc.all_rows(X, successes, trials=trials, **QUIET)


def test_bad_counts_of_files_are_placed(tmp_path):
    bad = FRAME.assign(s=np.where(np.arange(N) == 3000, 100, SUCCESSES))
    bad.to_parquet(tmp_path / "f.parquet", row_group_size=700)
    with pytest.raises(DataError, match=r"column 's' is above column 'n' .* row 3000.*row 200 of row group 4"):
        bc.all_rows(tmp_path / "f.parquet", label="s", trials="n", **QUIET)
    with pytest.raises(DataError, match="positive='a' is given beside trials"):
        bc.all_rows(X, SUCCESSES, trials=TRIALS, positive="a", **QUIET)


# --- weights of 0, missing values ----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("method", ["uniform", "calibrated", "aggregate"])
def test_rows_of_weight_0_are_left_out(method, tmp_path):
    options = {"method": method, "random_state": 2, **QUIET, **({} if method == "aggregate" else {"size": 60})}
    used = W > 0
    plain = bc.build_coreset(X[used], Y[used], weights=W[used], **options)
    expected = bc.build_coreset(X, Y, weights=W, **options)
    np.testing.assert_array_equal(expected.X, plain.X)
    np.testing.assert_array_equal(expected.weights, plain.weights)
    np.testing.assert_array_equal(expected.index, np.flatnonzero(used)[plain.index])
    assert expected.n_total == used.sum()
    for kind, data in kinds(FRAME[["a", "b", "y", "w"]], tmp_path).items():
        assert_same(bc.build_coreset(data, label="y", weights="w", **options), expected, kind)
    cuts = [slice(i, i + 613) for i in range(0, N, 613)]
    assert_same(bc.build_coreset(lambda: ((X[c], Y[c], W[c]) for c in cuts), **options), expected, "blocks")
    assert_same(bc.build_coreset(Dataset(as_source(X, Y, weights=W)).rows, **options), expected, "a source")


def test_negative_weights_are_refused_and_so_are_none_left():
    with pytest.raises(DataError, match=r"weights is -1 in row 3; .*rows of weight 0 are left out"):
        bc.all_rows(X, Y, weights=np.where(np.arange(N) == 3, -1.0, W), **QUIET)
    with pytest.raises(DataError, match="no row is left"):
        bc.all_rows(X, Y, weights=np.zeros(N), **QUIET)


def test_rows_of_weight_0_make_no_difference_to_a_stream():
    streams = [bc.stream(size=30, random_state=1) for _ in range(2)]
    for i in range(0, N, 500):
        cut = np.arange(i, i + 500)
        used = cut[W[cut] > 0]
        streams[0].partial_fit(X[cut], Y[cut], W[cut])
        streams[1].partial_fit(X[used], Y[used], W[used])
    one, other = (stream.coreset() for stream in streams)
    np.testing.assert_array_equal(one.weights, other.weights)
    assert one.n_total == other.n_total


def holed():
    labels = np.where(np.arange(N) == 17, None, Y)
    return pd.DataFrame(HOLES, columns=["a", "b"]).assign(y=labels)


@pytest.mark.parametrize(
    ("family", "more"),
    [("normal", {}), ("poisson", {}), ("poisson", {"exposure": "time"}), ("logistic", {"trials": "n"})],
)
def test_missing_values_are_counted_for_every_kind_of_response(family, more):
    frame = pd.DataFrame(HOLES, columns=["a", "b"]).assign(y=np.arange(N) % 3 * 1.0, n=2.0, time=1.5)
    missed, in_a, in_b = frame.isna().any(axis=1).sum(), frame["a"].isna().sum(), frame["b"].isna().sum()
    counts = rf"is nan in row .*Missing in all: {missed} of 5,000 rows \('a' in {in_a}, 'b' in {in_b}\)"
    with pytest.raises(DataError, match=counts):
        bc.fit("y ~ a + b", frame, family=family, **more, **QUIET)
    with pytest.raises(DataError, match=r"is inf in row 3; ((?!Missing in all).)*$"):
        bc.fit("y ~ a", frame.assign(a=np.where(np.arange(N) == 3, np.inf, 0.0)), family=family, **more, **QUIET)


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_missing_values_are_counted_or_dropped(tmp_path):
    frame = holed()
    whole = frame.dropna()
    in_a, in_b = frame["a"].isna().sum(), frame["b"].isna().sum()
    for data in (frame.fillna({"y": "no"}), kinds(frame.fillna({"y": "no"}), tmp_path)["parquet"]):
        with pytest.raises(DataError, match=rf"is nan in row .*Missing in all: .* \('a' in {in_a}, 'b' in {in_b}\)"):
            bc.all_rows(data, label="y", **QUIET)
    expected = bc.all_rows(whole, label="y", **QUIET)
    said = (
        rf"left out {N - len(whole)} of 5,000 rows, that miss 'a' \({in_a}\), 'b' \({in_b}\), 'y' \(1\): coef.* biased"
    )
    for kind, data in kinds(frame, tmp_path).items():
        with pytest.warns(UserWarning, match=said):
            found = bc.all_rows(data, label="y", missing="drop", **QUIET)
        np.testing.assert_array_equal(found.X, expected.X, err_msg=kind)
        np.testing.assert_array_equal(found.y, expected.y)
        np.testing.assert_array_equal(found.index, whole.index)
    with pytest.warns(UserWarning, match="left out"):
        arrays = bc.all_rows(HOLES, frame["y"], missing="drop", **QUIET)
    np.testing.assert_array_equal(arrays.X, expected.X)
    with pytest.warns(UserWarning, match="left out"):
        by = bc.all_rows(frame, formula="y ~ a * b", missing="drop", **QUIET)
    np.testing.assert_array_equal(by.X[:, 1:3], expected.X)
    with pytest.warns(UserWarning, match=rf"left out {in_a + 1 - (17 in np.flatnonzero(frame['a'].isna()))} of"):
        bc.all_rows(frame, formula="y ~ a", missing="drop", **QUIET)  # what no term uses may be missing
    with pytest.raises(ValueError, match="missing='ignore' is unknown"):
        bc.all_rows(frame, label="y", missing="ignore", **QUIET)


def test_nothing_is_said_where_nothing_is_missing():
    expected, found = (bc.all_rows(X, Y, missing=how, **QUIET) for how in ("raise", "drop"))
    np.testing.assert_array_equal(found.X, expected.X)
    with pytest.raises(DataError, match="column 'x0' is inf in row 4"):
        bc.all_rows(np.where((np.arange(N) == 4)[:, None], np.inf, HOLES), Y, missing="drop", **QUIET)


def test_blocks_cannot_drop_and_say_what_to_do():
    for data, what in ((lambda: iter([(HOLES, Y)]), "a callable of blocks"), (iter([(HOLES, Y)]), "an iterator of bl")):
        with pytest.raises(DataError, match=rf"missing='drop' is given, but data is {what}.*isnan\(X\)\.any\(axis=1\)"):
            bc.build_coreset(data, method="aggregate", missing="drop", **QUIET)


# --- which label is +1 ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_the_positive_label_is_chosen(tmp_path):
    plain = bc.all_rows(X, Y, **QUIET)
    for data, y in ((X, Y), (lambda: iter([(X, Y)]), None)):
        core = bc.all_rows(data, y, positive="no", **QUIET)
        assert core.classes == ("yes", "no")
        np.testing.assert_array_equal(core.y, -plain.y)
    for kind, data in kinds(FRAME[["a", "b", "y"]], tmp_path).items():
        core = bc.all_rows(data, label="y", positive="no", **QUIET)
        np.testing.assert_array_equal(core.y, -plain.y, err_msg=kind)
    stream = bc.build_coreset(iter([(X, Y)]), method="aggregate", positive="no", **QUIET)
    np.testing.assert_array_equal(stream.y, -plain.y)
    with pytest.raises(DataError, match="positive='maybe' is no class of y, which has 'no' and 'yes'"):
        bc.all_rows(X, Y, positive="maybe", **QUIET)
    core = bc.build_coreset(X, Y, positive="no", size=60, random_state=0, **QUIET)
    idata = bc.sample(core, sampler="mala", random_seed=0, **QUIET)
    assert bc.certify(idata, core, X, Y, **QUIET).n_passes > 0  # it knows which is +1
    core.save(tmp_path / "core.parquet")
    assert bc.read_coreset(tmp_path / "core.parquet").classes == ("yes", "no")


@pytest.mark.filterwarnings("ignore:The inplace keyword", "ignore:no weights on these")
def test_a_design_knows_what_labels_mean(tmp_path):
    core = bc.build_coreset(X, Y, positive="no", size=60, random_state=0, **QUIET)
    core.save(tmp_path / "core.parquet")
    idata = bc.sample(core, sampler="mala", random_seed=0, **QUIET)
    expected = np.where(Y == "no", 1, -1)
    for design in (core.design, bc.read_coreset(tmp_path / "core.parquet").design):
        for data in ((X, Y), (lambda: iter([(X[:9], Y[:9]), (X[9:], Y[9:])]),)):
            test = bc.all_rows(*data, design=design, **QUIET)
            assert test.classes == core.classes == ("yes", "no")
            np.testing.assert_array_equal(test.y, expected)
    named = bc.build_coreset(FRAME[["a", "b", "y"]], label="y", positive="no", size=60, random_state=0, **QUIET)
    for kind, data in kinds(FRAME[["a", "b", "y"]], tmp_path).items():
        test = bc.all_rows(data, label="y", design=named.design, **QUIET)
        np.testing.assert_array_equal(test.y, expected, err_msg=kind)
    check = fit_of(idata, core).inference_data(bc.all_rows(X, Y, design=core.design, **QUIET))
    np.testing.assert_array_equal(check["observed_data"]["y"], Y == "no")
    turned = bc.all_rows(X, Y, **QUIET)
    unlike = r"has the labels \('no', 'yes'\), the {} the labels \('yes', 'no'\)"
    with pytest.raises(DataError, match=rf"data {unlike.format('posterior')}"):
        fit_of(idata, core).inference_data(turned)
    with pytest.raises(DataError, match=rf"test {unlike.format('posterior')}"):
        bc.compare_posteriors(idata, idata, test=turned)
    with pytest.raises(DataError, match=rf"data {unlike.format('design')}"):
        bc.all_rows(X, Y, design=core.design, positive="yes", **QUIET)


def test_labels_unknown_to_a_design_are_told():
    design = bc.build_coreset(X, Y, size=60, method="uniform", random_state=0, **QUIET).design
    told = "y has the label 'perhaps', and the coreset was built with 'no' and 'yes'"
    with pytest.raises(DataError, match=told):
        bc.all_rows(X, np.where(np.arange(N) == 7, "perhaps", Y), design=design, **QUIET)
    with pytest.raises(DataError, match="y has the label False, and the coreset was built with 'no' and 'yes'"):
        bc.all_rows(X, Y == "yes", design=design, **QUIET)
    for data in ((X[Y == "yes"], Y[Y == "yes"]), (lambda: iter([(X[Y == "yes"], Y[Y == "yes"])]),)):
        with pytest.warns(UserWarning, match="have one label"):
            assert (bc.all_rows(*data, design=design, **QUIET).y == 1).all()  # one may be missing


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_ordered_categoricals_and_booleans_go_by_their_order(tmp_path):
    labels = pd.Categorical(Y, categories=["unknown", "yes", "no"], ordered=True)
    frame = FRAME[["a", "b"]].assign(y=labels)
    for kind, data in kinds(frame, tmp_path).items():
        expected = ("no", "yes") if kind == "polars" else ("yes", "no")  # whose categoricals have no order
        assert bc.all_rows(data, label="y", **QUIET).classes == expected, kind
    enum = pl.DataFrame({"a": X[:, 0], "y": pl.Series(Y, dtype=pl.Enum(["yes", "no"]))})
    order = ("yes", "no") if int(pl.__version__.split(".")[0]) >= 2 else ("no", "yes")  # which polars 1 does not tell
    assert bc.all_rows(enum, label="y", **QUIET).classes == order
    assert bc.all_rows(X, pd.Series(labels), **QUIET).classes == ("yes", "no")
    assert bc.all_rows(frame[["a", "b"]], labels, **QUIET).classes == ("yes", "no")
    assert bc.all_rows(lambda: iter([(X, labels)]), **QUIET).classes == ("yes", "no")
    assert bc.all_rows(X, labels.as_unordered(), **QUIET).classes == ("no", "yes")
    assert bc.all_rows(X, Y == "no", **QUIET).classes == (False, True)
    assert bc.all_rows(X, (Y == "no").astype(int), positive=0, **QUIET).classes == (1, 0)


@pytest.mark.filterwarnings("default:missing=")
def test_the_command_line_takes_all_of_them(tmp_path, monkeypatch, capsys):
    from bayescore.cli import main

    monkeypatch.chdir(tmp_path)
    rows = FRAME[["a", "b", "s", "n"]].assign(o=np.round(ETA, 2), a=HOLES[:, 0])
    rows.to_parquet("rows.parquet")
    rows.assign(y=Y).to_parquet("labels.parquet")
    beside = ["--trials", "n", "--offset", "o", "--missing", "drop", "--quiet"]
    made = ["--size", "60", "--seed", "1", "-o", "core"]
    assert main(["build", "rows.parquet", "--label", "s", *beside, *made]) == 0
    assert "missing='drop' left out 516 of 5,000 rows" in capsys.readouterr().err
    core = bc.read_coreset("core")
    assert (core.design.offset, core.classes, core.feature_names) == ("o", (0, 1), ("a", "b"))
    told = ["build", "labels.parquet", "--positive", "no", "--missing", "drop", "--formula", "y ~ a"]
    assert main([*told, "--size", "60", "--quiet", "-o", "other"]) == 0
    assert bc.read_coreset("other").classes == ("yes", "no")
