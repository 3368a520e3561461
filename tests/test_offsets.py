"""Offsets from the data to the prediction: every method, sampler and source has them, or says that it has not."""

import re
from dataclasses import replace

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bayescore as bc
from bayescore.coresets.methods import METHODS
from bayescore.coresets.private import private_coreset
from bayescore.families.family import FAMILIES
from bayescore.models.posterior import log_likelihoods
from bayescore.numerics.chains import ess, mcse_mean
from bayescore.samplers.normal import NORMAL
from bayescore.samplers.sample import SAMPLERS
from bayescore.samplers.smooths import SMOOTHS
from bayescore.samplers.steps import AlbertChibGibbs, PolyaGammaGibbs
from tests.conftest import make_rows
from tests.hand_made import fit_of, log_likelihood

LABELS = [name for name, own in FAMILIES.items() if not own.counts]

N = 20_000
RNG = np.random.default_rng(8)
X = np.round(RNG.normal(size=(N, 2)), 1)
OFFSET = np.round(1.5 * X[:, 0] + RNG.normal(size=N), 1)  # whoever drops it finds 1.5 more in the first coefficient
ETA = -0.5 + X @ [0.4, -0.8] + OFFSET
Y = np.where(ETA + RNG.logistic(size=N) > 0, "yes", "no")
FRAME = pd.DataFrame(X, columns=["a", "b"]).assign(clicked=Y, exposure=OFFSET)
COLUMNS = {"label": "clicked", "offset": "exposure"}
OF_OTHER_MODELS = NORMAL, SMOOTHS
FLAT_SAMPLERS = {k: own for k, own in SAMPLERS.items() if own.grouped is not True and own not in OF_OTHER_MODELS}
TOLD = {"intercept": True, "random_state": 4, "progressbar": False}
SIZES = {"aggregate": None, "calibrated": 100, "auto": 100, "merge_reduce": 100}
quiet = pytest.mark.filterwarnings("ignore")


def build(data, y=None, *, method="uniform", **options):
    size = SIZES.get(method, 1000)
    return bc.build_coreset(data, y, method=method, **({} if size is None else {"size": size}), **TOLD, **options)


@pytest.fixture(scope="module")
def full():
    return bc.all_rows(FRAME, **COLUMNS, intercept=True, progressbar=False)


# --- samplers ------------------------------------------------------------------------------------------------


def one_coefficient(weights):
    """Forty rows of one column, the offset correlated with it."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 1))
    y = np.where(rng.random(40) < 0.5, 1, -1).astype(np.int8)
    w = np.where(np.arange(40) % 2, 1.0, rng.uniform(0.2, 5.0, 40)) if weights else np.ones(40)
    return bc.types.WeightedData(x, y, w, np.arange(40), offset=1.5 * x[:, 0] + rng.normal(size=40))


def on_a_grid(data, family):
    grid = np.linspace(-8, 8, 4001)
    points = grid[:, None]
    log_p = log_likelihoods(points, data, FAMILIES[family]) + bc.priors.Normal(0, 4).log_density(points)
    p = np.exp(log_p - log_p.max()) / np.exp(log_p - log_p.max()).sum()
    mean = float(p @ grid)
    return mean, float(np.sqrt(p @ (grid - mean) ** 2))


@pytest.mark.slow
@pytest.mark.parametrize("weights", [True, False], ids=["weighted", "plain"])
@pytest.mark.parametrize(
    ("sampler", "family"),
    [(name, family) for name, own in FLAT_SAMPLERS.items() if name != "nuts" for family in own.families or LABELS],
)
def test_samplers_draw_the_posterior_with_the_offset(sampler, family, weights):
    """Mean within 4 standard errors and sd within 10% of a grid's, at an ESS of 1500: false alarms 1e-4 a case.

    The grid without the offset, which the draws must miss, is the negative control.
    """
    assert_has_offset(sampler, family, weights)


@pytest.mark.slow
def test_nuts_draws_the_posterior_with_the_offset():
    """Once: that PyMC's density is the compiled one, offsets too, is tested for each family."""
    assert_has_offset("nuts", "cloglog", True)


def assert_has_offset(sampler, family, weights):
    data = one_coefficient(weights)
    draws = bc.sample(data, family, sampler=sampler, draws=1500, chains=2, random_seed=1, progressbar=False)
    beta = draws.posterior["beta"].values
    assert min(ess(beta, "bulk")[0], ess(beta**2, "bulk")[0]) > 500
    mean, sd = on_a_grid(data, family)
    error = mcse_mean(beta)[0]
    assert abs(beta.mean() - mean) < 4 * error
    assert beta.std() == pytest.approx(sd, rel=0.1)
    assert abs(beta.mean() - on_a_grid(replace(data, offset=None), family)[0]) > 20 * error
    np.testing.assert_array_equal(draws.constant_data["offset"], data.offset)


@pytest.mark.parametrize(("step", "family"), [(AlbertChibGibbs, "probit"), (PolyaGammaGibbs, "logistic")])
def test_steps_in_a_model_know_the_offset_of_its_rows(step, family):
    import pymc as pm

    data = one_coefficient(True)
    with pm.Model():
        beta = pm.Normal("beta", 0, 4, shape=1)
        bc.weighted_potential("loglik", data, beta, family)
        own = step(beta, data)  # which holds the model's density against its own
        with pytest.raises(ValueError, match="is not its prior times"):
            step(beta, replace(data, offset=None))
        idata = pm.sample(800, tune=20, chains=2, cores=1, step=own, random_seed=1, progressbar=False)
    draws = idata.posterior["beta"].values
    assert abs(draws.mean() - on_a_grid(data, family)[0]) < 4 * mcse_mean(draws)[0]


# --- methods -------------------------------------------------------------------------------------------------

FAR = {"aggregate": 1e-6, "calibrated": 0.1, "condensed": 0.1, "auto": 0.1, "merge_reduce": 0.5}


@quiet
@pytest.mark.parametrize("family", LABELS)
@pytest.mark.parametrize("method", [name for name in METHODS if name != "multilevel"])  # rows in groups: see there
def test_coresets_of_every_method_have_the_mode_of_all_rows(method, family, full):
    """In sds of the full posterior; draws by importance are off by sqrt(N / M) = 4.5 sd times a few.

    Without the offset it is off by 40 sd or more: a method that dropped it, or took it from other rows, fails.
    """
    if family not in (METHODS[method].families or FAMILIES):
        pytest.skip(f"{method} serves another likelihood")
    core = build(FRAME, method=method, family=family, **COLUMNS)
    rows = ~core.pseudo
    assert rows.any() or method == "condensed"
    np.testing.assert_array_equal(core.offset[rows], OFFSET[core.index[rows]])
    expected = bc.find_map(full, family)
    off = np.abs((bc.find_map(core, family).beta - expected.beta) / expected.sd).max()
    assert off < FAR.get(method, 20.0)
    assert core.design.offset == "exposure"
    dropped = replace(full, offset=0.0 * full.offset)
    assert np.abs((bc.find_map(dropped, family).beta - expected.beta) / expected.sd).max() > 40.0


@quiet
@pytest.mark.parametrize("method", ["leverage", "online", "uniform", "merge_reduce"])
def test_scores_and_weights_are_those_of_one_more_column(method):
    tree = {"reducer": "leverage", "leaf_rows": 8000} if method == "merge_reduce" else {}
    core = build(FRAME, method=method, **tree, **COLUMNS)
    beside = build(FRAME, method=method, **tree, label="clicked")
    for name in ("X", "y", "weights", "index"):
        expected = getattr(beside, name)
        np.testing.assert_array_equal(getattr(core, name), expected[:, :3] if name == "X" else expected)
    np.testing.assert_array_equal(core.offset, beside.X[:, 3])


@quiet
def test_nodes_reduced_by_sensitivity_keep_offsets():
    core = build(FRAME, method="merge_reduce", reducer="sensitivity", leaf_rows=8000, **COLUMNS)
    np.testing.assert_array_equal(core.offset, OFFSET[core.index])


def test_the_bound_of_sensitivities_holds_with_offsets():
    """At many points of the ball, against the definition: sup over the ball of a row's share in the log-likelihood."""
    from bayescore.clustering.assignment import assign
    from bayescore.coresets.sensitivity import bounds_of
    from bayescore.data.dataset import Dataset
    from bayescore.data.design import append_offset
    from bayescore.data.sources import as_source

    rows = make_rows(weights=False, n=200)
    rows = replace(rows, offset=np.random.default_rng(1).normal(size=200))
    dataset = Dataset(as_source(rows)).append_offset()
    theta, R = np.array([0.3, -0.2, 0.5]), 1.5
    part = assign(dataset, append_offset(rows).Z[::40])
    bounds = bounds_of(append_offset(rows), part, R, np.append(theta, 1.0), 200.0)
    moves = np.random.default_rng(2).normal(size=(2000, 3))
    points = theta + R * moves / np.linalg.norm(moves, axis=1)[:, None]
    loss = -FAMILIES["logistic"].log_p(rows.with_offset(rows.X @ points.T), rows.y[:, None])
    assert (bounds >= (200.0 * loss / loss.sum(axis=0)).max(axis=1)).all()
    assert dataset.n_passes == 2


def test_private_coresets_refuse_offsets():
    with pytest.raises(ValueError, match="have an offset, which a private coreset would reveal"):
        private_coreset(lambda: blocks(5000), n_clusters=3, epsilon=1.0, radius=3.0)


# --- sources, cuts, streams ----------------------------------------------------------------------------------


def blocks(step):
    return ((X[i : i + step], Y[i : i + step], None, OFFSET[i : i + step]) for i in range(0, N, step))


def sources(folder):
    FRAME.to_parquet(folder / "rows.parquet", row_group_size=3000)
    bare = FRAME[["a", "b"]]
    return {
        "array": (X, Y, {"offset": OFFSET}),
        "frame and array": (bare, Y, {"offset": OFFSET}),
        "polars": (pl.from_pandas(FRAME), None, COLUMNS),
        "arrow": (pa.Table.from_pandas(FRAME), None, COLUMNS),
        "parquet": (folder / "rows.parquet", None, COLUMNS),
        "dask": (dd.from_pandas(FRAME, npartitions=7), None, COLUMNS),
        "dask beside": (
            dd.from_pandas(bare, npartitions=7),
            dd.from_pandas(FRAME["clicked"], npartitions=7),
            {"offset": dd.from_pandas(FRAME["exposure"], npartitions=7)},
        ),
        "callable": (lambda: blocks(2777), None, {}),
    }


@quiet
@pytest.mark.parametrize("method", ["uniform", "sensitivity", "leverage", "calibrated", "aggregate", "merge_reduce"])
def test_sources_give_the_same_bits(method, tmp_path):
    expected = build(FRAME, method=method, **COLUMNS)
    for kind, (data, y, told) in sources(tmp_path).items():
        found = build(data, y, method=method, **told)
        for name in ("X", "y", "weights", "index", "offset"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=f"{kind}: {name}")


@quiet
@pytest.mark.parametrize("method", ["merge_reduce", "online"])
def test_streams_keep_offsets_through_a_checkpoint(method, tmp_path):
    whole, other = (bc.stream(method, size=60, random_state=1) for _ in range(2))
    for number, block in enumerate(blocks(3333)):
        whole.partial_fit(*block)
        other.partial_fit(*block)
        if number == 3:
            other.save(tmp_path / "state")
            other = bc.read_stream(tmp_path / "state")
    core, again = whole.coreset(), other.coreset()
    np.testing.assert_array_equal(core.offset, again.offset)
    np.testing.assert_array_equal(core.weights, again.weights)
    np.testing.assert_array_equal(core.offset, OFFSET[core.index])
    once = bc.build_coreset(blocks(999), method=method, size=60, random_state=1, progressbar=False)
    np.testing.assert_array_equal(once.offset, core.offset)
    np.testing.assert_array_equal(once.weights, core.weights)


def test_a_stream_must_know_which_label_is_positive():
    one = Y == "no"
    with pytest.raises(ValueError, match=r"all labels are 'yes', and with offsets .* name them as classes="):
        bc.stream(size=10).partial_fit(X[~one], Y[~one], None, OFFSET[~one])
    stream = bc.stream(size=10, classes=("no", "yes"))
    stream.partial_fit(X[~one], Y[~one], None, OFFSET[~one])
    with pytest.raises(ValueError, match="block 1 has no offset, unlike the blocks before it; give 0 for none"):
        stream.partial_fit(X[one], Y[one])


# --- files, predictions, certificates ------------------------------------------------------------------------


def test_files_keep_offsets(tmp_path):
    core = build(FRAME, method="calibrated", **COLUMNS)
    core.save(tmp_path / "core.parquet")
    again = bc.read_coreset(tmp_path / "core.parquet")
    np.testing.assert_array_equal(again.offset, core.offset)
    assert (again.design, again.rows_digest) == (core.design, core.rows_digest)
    assert list(core.to_frame().columns) == ["Intercept", "a", "b", "clicked", "weight", "offset"]
    assert re.search("offset  +exposure", repr(core))
    changed = replace(core, offset=core.offset + 1.0)
    assert changed.rows_digest != core.rows_digest
    both = bc.Coreset.concat([core, core])
    assert len(both.offset) == 2 * len(core)
    smaller = bc.build_coreset(core, method="uniform", size=20, random_state=1, progressbar=False)
    assert set(smaller.offset) <= set(core.offset)


@pytest.fixture(scope="module")
def fitted():
    core = build(FRAME, method="calibrated", **COLUMNS)
    return core, bc.sample(core, sampler="mala", draws=500, random_seed=2, progressbar=False)


def test_predictions_take_the_offset_of_new_rows(fitted):
    core, idata = fitted
    new = FRAME.iloc[:50]
    fit = fit_of(idata, core)
    found = fit.predict(new)["mean"].to_numpy()
    beta = idata.posterior["beta"].values.reshape(-1, 3)
    eta = np.column_stack([np.ones(50), X[:50]]) @ beta.T + OFFSET[:50, None]
    np.testing.assert_allclose(found, (1 / (1 + np.exp(-eta))).mean(axis=1), atol=1e-8)
    np.testing.assert_array_equal(fit.predict(X[:50], offset=OFFSET[:50])["mean"], found)
    zero = fit.predict(X[:50], offset=np.zeros(50), prob=0.9)
    assert np.abs(zero["mean"] - found).max() > 0.1
    renamed = new.rename(columns={"exposure": "e"})
    np.testing.assert_array_equal(fit.predict(renamed, offset="e")["mean"], found)
    with pytest.raises(ValueError, match=r"X has no column 'exposure' of the offset .* give offset="):
        fit.predict(X[:50])
    with pytest.raises(ValueError, match="offset is nan in row 3"):
        fit.predict(X[:5], offset=[0, 0, 0, np.nan, 0])
    rows = bc.all_rows(new, label="clicked", design=core.design, progressbar=False)
    log_p = log_likelihood(idata, rows).values
    signed = np.where(Y[:50] == "yes", 1, -1)[:, None] * eta
    np.testing.assert_allclose(log_p.reshape(-1, 50).T, -np.logaddexp(0, -signed), rtol=1e-9)
    check = fit.inference_data(rows, max_draws=2000)
    np.testing.assert_allclose(check["log_likelihood"]["y"], log_p, rtol=1e-9)
    share = check.posterior_predictive["y"].values.reshape(-1, 50).mean(axis=0)
    assert np.abs(share - found).max() < 5 * 0.5 / np.sqrt(2000)
    with pytest.raises(ValueError, match="data has no offset, and the posterior's rows had one, 'exposure'"):
        fit.inference_data(bc.types.WeightedData(rows.X, rows.y, rows.weights, rows.index))


def test_average_predictions_add_offsets():
    g, own = (X[:400, :1] > 0).astype(float), OFFSET[:400]
    core = bc.all_rows(g, Y[:400], offset=own, intercept=True, progressbar=False)
    idata = bc.sample(core, sampler="mala", draws=50, tune=50, random_seed=1, progressbar=False)
    beta = idata.posterior["beta"].values.reshape(-1, 2)
    found = fit_of(idata, core).average_predictions(by="x0")["mean"]
    p = 1 / (1 + np.exp(-(beta[:, 0] + g * beta[:, 1] + own[:, None])))
    np.testing.assert_allclose(found, [p[g[:, 0] == level].mean() for level in (0, 1)], rtol=1e-9)


def test_posteriors_without_an_offset_refuse_one(rows):
    core = bc.all_rows(rows.X, rows.y, progressbar=False)
    idata = bc.sample(core, sampler="mala", draws=20, tune=20, progressbar=False)
    with pytest.raises(ValueError, match="had none; leave it out"):
        fit_of(idata, core).predict(rows.X, offset=np.zeros(60))
    with_one = bc.all_rows(rows.X, rows.y, offset=np.arange(60) / 60, progressbar=False)
    idata = bc.sample(with_one, sampler="mala", draws=20, tune=20, progressbar=False)
    with pytest.raises(ValueError, match="X has no column 'offset' of the offset"):
        fit_of(idata, with_one).predict(rows.X)


@pytest.mark.slow
def test_certificates_know_the_offset(fitted, full):
    core, idata = fitted
    found = bc.certify(idata, core, FRAME, label="clicked", progressbar=False)
    assert found.level == "certified"
    assert found.coordinates["mean_error_sd"].abs().max() < 0.25
    again = bc.certify(idata, core, FRAME[["a", "b"]], Y, offset=OFFSET, progressbar=False)
    np.testing.assert_array_equal(again.coordinates["corrected_mean"], found.coordinates["corrected_mean"])
    assert again.elpd_loo == found.elpd_loo
    exact = bc.sample(full, sampler="mala", draws=300, tune=300, random_seed=3, progressbar=False)
    log_p = log_likelihood(exact, full).values.reshape(-1, N)
    simple = (np.log(np.exp(log_p).mean(axis=0)) - log_p.var(axis=0)).sum()  # WAIC, N / 3 parameters aside
    assert found.elpd_loo == pytest.approx(simple, abs=2.0)
    with pytest.raises(ValueError, match="offset is missing: the coreset was built from had one, 'exposure'"):
        bc.certify(idata, core, lambda: ((X, Y) for _ in range(1)), progressbar=False)
    evidence = bc.log_evidence(core, FRAME, label="clicked", random_state=1, progressbar=False)
    assert abs(evidence.difference) < 0.5


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("family", LABELS)
def test_posteriors_of_counts_with_offsets_are_those_of_all_rows(family):
    """Means within 0.05 sd of a long run on all rows, 5.5 standard errors on top: 4e-8 each; sds are known to 1.4%.

    The coreset's own rows without their offsets, the negative control, are off by far more.
    """
    rng = np.random.default_rng(5)
    x, offset, trials = rng.normal(size=(3000, 2)), rng.normal(size=3000), rng.integers(1, 9, 3000)
    p = FAMILIES[family].mean(-0.4 + x @ [0.6, -0.4] + offset)
    told = {"trials": trials, "offset": offset, "intercept": True, "family": family, "progressbar": False}
    counts = rng.binomial(trials, p)
    core = bc.build_coreset(x, counts, size=300, random_state=1, **told)
    everything = bc.all_rows(x, counts, **told)
    runs = [(core, family), (everything, family), (replace(core, offset=0.0 * core.offset), family)]
    how = {"sampler": "langevin", "ess": 8000, "draws": 2500, "progressbar": False}
    draws = [
        bc.sample(rows, name, random_seed=seed, **how).posterior["beta"].values
        for seed, (rows, name) in enumerate(runs)
    ]
    assert min(ess(own, "bulk").min() for own in draws[:2]) > 5000
    sd = draws[1].std(axis=(0, 1))
    gaps = [np.abs(own.mean(axis=(0, 1)) - draws[1].mean(axis=(0, 1))) / sd for own in (draws[0], draws[2])]
    assert (gaps[0] < 0.05 + 5.5 * np.hypot(mcse_mean(draws[0]), mcse_mean(draws[1])) / sd).all()
    assert np.abs(draws[0].std(axis=(0, 1)) / sd - 1.0).max() < 0.1
    assert gaps[1].max() > 3.0


def test_a_coreset_of_rows_without_offset_takes_none():
    core = bc.all_rows(X[:50], Y[:50], progressbar=False)
    with pytest.raises(ValueError, match="offset is given, but the design had none; leave it out"):
        bc.all_rows(X[:50], Y[:50], offset=OFFSET[:50], design=core.design, progressbar=False)
    with pytest.raises(ValueError, match="rows have no offset, unlike their design"):
        replace(core, design=replace(core.design, offset="o"))


BAD = {
    "missing": (OFFSET * np.where(np.arange(N) == 7, np.nan, 1.0), r"offset is nan in row 7; offsets are finite"),
    "an exposure": (np.full(N, 1e5), "at most 10000 in size: give log"),
    "too few": (OFFSET[:-1], r"offset has shape \(19999,\); it must be \(20000,\), one offset for each row"),
    "text": (Y, "offset must be numbers"),
    "a name": ("exposure", "offset='exposure' names a column, but data is an array"),
}


@pytest.mark.parametrize("kind", BAD)
def test_offsets_that_cannot_be_used(kind):
    offset, message = BAD[kind]
    with pytest.raises(ValueError, match=message):
        build(X, Y, offset=offset)


def test_columns_that_cannot_be_offsets(tmp_path):
    bad = FRAME.assign(exposure=np.where(np.arange(N) == 16_000, np.nan, OFFSET))
    bad.to_parquet(tmp_path / "bad.parquet", row_group_size=5000)
    message = r"offset \(column 'exposure'\) is nan in row 16000.*row 1000 of row group 3"
    with pytest.raises(ValueError, match=message):
        build(tmp_path / "bad.parquet", **COLUMNS)
    with pytest.raises(ValueError, match="offset='e' is not a column"):
        build(FRAME, label="clicked", offset="e")
    with pytest.raises(ValueError, match="label and offset both name the column 'clicked'"):
        build(FRAME, label="clicked", offset="clicked")
    with pytest.raises(ValueError, match="columns are not numeric: 'clicked2'"):
        build(FRAME.assign(clicked2=Y), label="clicked", offset="clicked2")
    renamed = build(FRAME.rename(columns={"a": "offset"}), **COLUMNS)
    assert {"offset", "offset_"} <= set(renamed.to_frame().columns)


def test_formulas_take_the_offset_beside_them():
    told = {"formula": "clicked ~ a * b", "offset": "exposure", "progressbar": False}
    core = bc.all_rows(FRAME[:500], **told)
    assert core.design.offset == "exposure"
    plain = bc.all_rows(X[:500], Y[:500], offset=OFFSET[:500], progressbar=False)
    products = np.column_stack([np.ones(500), plain.X, plain.X[:, 0] * plain.X[:, 1]])
    modes = [bc.find_map(rows, prior=bc.priors.Normal(0, 4)).beta for rows in (core, replace(plain, X=products))]
    np.testing.assert_allclose(*modes)
    idata = bc.sample(core, sampler="mala", draws=50, tune=50, random_seed=1, progressbar=False)
    assert len(fit_of(idata, core).predict(FRAME[:5])) == 5
