"""Average predictions against their formulas, draw by draw, over rows in memory and of other sources."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import bayescore as bc
from bayescore.data import dataset as passes
from bayescore.data.dataset import Dataset
from bayescore.diagnostics import averages as average_sums
from bayescore.diagnostics.averages import Change, ContrastCells, sums_by_sample, sums_of_every_row
from bayescore.families.family import FAMILIES
from bayescore.fitting.route import Given
from bayescore.models.predictor import Predictor
from bayescore.validation import DataError
from tests.diagnostics.test_row_sums import KINDS, problem
from tests.hand_made import fit_of
from tests.samplers.test_effects import ROWS, N, full, posterior_of

LABELS = [name for name, own in FAMILIES.items() if not own.counts]


def averages(idata, core, data=None, *, by=None, variables=None, **asked):
    """Return the averages over rows, by default of the coreset, for each level."""
    found = fit_of(idata, core).average_predictions(data=data, by=by, variables=variables, **asked)
    return found.set_index(by or variables)


def expected(p, weights, groups):
    """Return the average of p, shape (n, S), over each group, draw by draw."""
    return np.stack([np.average(p[own], axis=0, weights=weights[own]) for own in groups])


@pytest.mark.parametrize("family", ["logistic", "probit"])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("where", ["raw rows", "full data", "the posterior's rows"])
def test_averages_over_the_rows_of_each_level(family, standardize, where):
    weights = np.random.default_rng(2).uniform(0.5, 2.0, N)
    core = full(ROWS.assign(w=weights), weights="w", standardize=standardize, family=family)
    idata, beta = posterior_of(core, family)
    data = {"raw rows": ROWS, "full data": core, "the posterior's rows": None}[where]
    w = np.ones(N) if where == "raw rows" else weights
    p = FAMILIES[family].mean(core.X @ beta.T)
    for name, levels in {"device": ["desktop", "phone", "tablet"], "visits": [0, 1, 2, 3]}.items():
        table = averages(idata, core, data, by=name, prob=0.8)
        assert list(table.index) == levels
        truth = expected(p, w, [(ROWS[name] == level).to_numpy() for level in levels])
        np.testing.assert_allclose(table["mean"], truth.mean(axis=1), rtol=1e-9)
        np.testing.assert_allclose(table[["10%", "90%"]].T, np.quantile(truth, [0.1, 0.9], axis=1), rtol=1e-9)
        np.testing.assert_allclose(table["sd"], truth.std(axis=1, ddof=1), rtol=1e-9)


@pytest.mark.parametrize("where", ["raw rows", "the posterior's rows"])
def test_averages_over_all_rows_as_if_they_had_the_level(where):
    core = full(standardize=True)
    idata, beta = posterior_of(core)
    table = averages(idata, core, ROWS if where == "raw rows" else None, variables="device")
    for level in ("desktop", "phone", "tablet"):
        X = full(ROWS.assign(device=level), formula=None, design=core.design).X
        assert table.loc[level, "mean"] == pytest.approx(expit(X @ beta.T).mean(), rel=1e-9)
    by = averages(idata, core, ROWS, by="device")
    assert abs(by["mean"] - table["mean"]).max() > 1e-4  # another question


@pytest.mark.parametrize("where", ["raw rows", "full data", "the posterior's rows"])
def test_offsets_count(where):
    data = ROWS.assign(o=np.linspace(-1.0, 1.0, N))
    core = full(data, offset="o")
    idata, beta = posterior_of(core)
    given = {"raw rows": data, "full data": core, "the posterior's rows": None}[where]
    p, own = expit(core.X @ beta.T + core.offset[:, None]), (data["device"] == "phone").to_numpy()
    assert averages(idata, core, given, by="device").loc["phone", "mean"] == pytest.approx(p[own].mean())
    X = full(data.assign(device="phone"), formula=None, design=core.design).X
    p = expit(X @ beta.T + core.offset[:, None])
    assert averages(idata, core, given, variables="device").loc["phone", "mean"] == pytest.approx(p.mean())


def test_columns_without_a_formula():
    with pytest.warns(UserWarning, match="columns of text are coded"):
        core = bc.all_rows(ROWS, label="clicked", intercept=True, standardize=True, progressbar=False)
    idata, beta = posterior_of(core)
    table = averages(idata, core, variables="visits")
    X = bc.all_rows(ROWS.assign(visits=2), label="clicked", design=core.design, progressbar=False).X
    assert table.loc[2, "mean"] == pytest.approx(expit(X @ beta.T).mean(), rel=1e-9)
    table = averages(idata, core, by="device")
    own = (ROWS["device"] == "tablet").to_numpy()
    assert table.loc["tablet", "mean"] == pytest.approx(expit(core.X[own] @ beta.T).mean(), rel=1e-9)


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    core = full()
    idata, _ = posterior_of(core)
    several = averages(idata, core, ROWS, by="device")
    monkeypatch.setattr(passes, "available_cores", lambda: 1)
    assert several.equals(averages(idata, core, ROWS, by="device"))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"by": "county"}, DataError, "by='county' is no column of the data: 'age', 'device', 'visits'"),
        ({"by": "age"}, DataError, "by='age' has more than 20 values in these rows: it is no factor"),
        ({"by": "device", "prob": 1.5}, ValueError, "prob"),
    ],
)
def test_what_cannot_be_averaged_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        averages(posterior_of(full())[0], full(), ROWS, **arguments)


def test_rows_of_a_design_that_do_not_tell_the_column_are_refused():
    core = full(formula="clicked ~ log(visits + 1) + device + poly(age, 2)")
    idata, _ = posterior_of(core)
    assert list(averages(idata, core, by="device").index) == ["desktop", "phone", "tablet"]
    with pytest.raises(DataError, match=r"do not tell 'visits' \(formula=.*give raw rows as data"):
        averages(idata, core, variables="device")
    assert len(averages(idata, core, ROWS, variables="device")) == 3


@pytest.mark.parametrize("given", [{"by": "device"}, {"variables": "device"}])
def test_an_average_of_no_rows_is_refused(given):
    core = full()
    idata, _ = posterior_of(core)
    for rows in (ROWS.iloc[:0], core.take(slice(0))):
        with pytest.raises(DataError, match="data has no rows, so there is no average"):
            averages(idata, core, rows, **given)


@pytest.fixture
def many(monkeypatch):
    """Rows are many from 1,000 of them on."""
    monkeypatch.setattr(average_sums, "EVERY_ROW", 1000)
    monkeypatch.setattr(average_sums, "SAMPLE_ROWS", 300)


@pytest.mark.parametrize(
    "given", [{"by": "device"}, {"variables": "device"}, {"by": "visits"}, {"variables": "visits"}]
)
def test_every_source_of_many_rows_gives_the_averages_of_all_within_the_error(given, many, tmp_path, monkeypatch):
    dask = pytest.importorskip("dask.dataframe")
    core = full(standardize=True)
    idata, _ = posterior_of(core, sd=0.02)
    path = tmp_path / "rows.parquet"
    ROWS.to_parquet(path, row_group_size=700)
    sources = {"raw": ROWS, "all rows": core, "parquet": str(path), "dask": dask.read_parquet(path)}
    found = {name: averages(idata, core, each, **given) for name, each in sources.items()}
    monkeypatch.setattr(average_sums, "EVERY_ROW", N)
    exact = averages(idata, core, ROWS, **given)
    assert (exact["sampling_se"] == 0.0).all()
    for table in found.values():
        assert table.index.equals(exact.index)
        assert (table["sampling_se"] > 0.0).all()
        assert (abs(table["mean"] - exact["mean"]) <= 3.0 * table["sampling_se"]).all()
        np.testing.assert_allclose(table, found["raw"], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(table["97.5%"], exact["97.5%"], atol=1e-4)


def test_sources_have_labels_weights_and_offsets_as_a_build_takes_them(many, tmp_path):
    frame = ROWS[["age", "visits"]].assign(o=np.linspace(-1.0, 1.0, N), w=1.0 + np.arange(N) % 3, y=ROWS["clicked"] * 1)
    beside = {"label": "y", "weights": "w", "offset": "o"}
    core = bc.all_rows(frame, intercept=True, standardize=True, progressbar=False, **beside)
    idata, beta = posterior_of(core, sd=0.02)
    frame.to_parquet(tmp_path / "rows.parquet")
    given = Given(tmp_path / "rows.parquet", roles=beside)
    found = fit_of(idata, core, _given=given).average_predictions(by="visits").set_index("visits")
    p = expit(core.X @ beta.T + core.offset[:, None])
    for level, row in found.iterrows():
        own = (frame["visits"] == level).to_numpy()
        truth = np.average(p[own], axis=0, weights=frame["w"][own]).mean()
        assert row["mean"] == pytest.approx(truth, abs=3.0 * row["sampling_se"])


def test_the_rows_of_a_coreset_are_refused():
    """Its rows stand for all in the likelihood: averages over them were off, and said nothing of it."""
    core = bc.build_coreset(
        ROWS, formula="clicked ~ device", method="uniform", size=300, random_state=0, progressbar=False
    )
    idata = bc.sample(core, sampler="mala", draws=50, tune=50, random_seed=0, progressbar=False)
    with pytest.raises(DataError, match=r"a coreset's of method 'uniform'.*give all rows as data"):
        averages(idata, core, core, by="device")
    with pytest.raises(DataError, match=r"does not have all its rows.*an answer that takes data=rows"):
        averages(idata, core, by="device")


def test_each_row_is_evaluated_where_the_sample_does_not_tell(many, monkeypatch):
    core = full(standardize=True)
    idata, _ = posterior_of(core)
    monkeypatch.setattr(average_sums, "_ERROR_SHARE", 0.0)
    monkeypatch.setattr(average_sums, "_NEGLIGIBLE", 0.0)
    assert (averages(idata, core, core, by="device")["sampling_se"] == 0.0).all()


def ratios(kind, family, seed, *, beyond=True):
    """Return the RMS error over draws of the sums of two levels, by the one that is said; of its own rows, or of all.

    Without `beyond` the sample adds nothing.
    """
    rows, _, draws = problem(kind, family, seed)
    rng, family = np.random.default_rng(seed), FAMILIES[family]
    X, draws = (
        np.column_stack([rows.X, rng.random(len(rows)) < 0.3]),
        np.column_stack([draws, rng.normal(size=60) / 50]),
    )
    core = bc.all_rows(X, rows.y, weights=rows.weights, offset=rows.offset, progressbar=False)
    name, values = core.feature_names[-1], (0.0, 1.0)
    how = {"by": (name,), "values": (values,)}
    if seed % 2:
        how = {"variable": name, "contrasts": tuple((Change(value=x),) for x in values)}
    cells = ContrastCells(core.design, True, **how)
    dataset = Dataset(core.as_source(), core.design, progress=False)
    at = Predictor(draws)
    exact, found = (
        sums_of_every_row(dataset, cells, at, family),
        sums_by_sample(dataset, cells, at, family, size=300),
    )
    values = found.values
    if not beyond:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(average_sums, "_remainder_sums", lambda *_: (0.0, 0.0))
            values = sums_by_sample(dataset, cells, at, family, size=300).values
    return np.sqrt(((values - exact.values) ** 2).mean(axis=1)) / found.error


@pytest.mark.slow
@pytest.mark.statistical(rate=2e-6)
def test_errors_are_as_large_as_they_say(many):
    """An error of one direction exceeds three said ones in 1 of 370: ten of 512 levels do so twice in 10^6."""
    found = np.array([ratios(kind, family, seed) for kind in KINDS for family in LABELS for seed in range(8)])
    assert found.shape == (256, 2)
    assert (found > 3.0).sum() <= 9
    assert 0.6 < np.sqrt((found**2).mean()) < 1.2


def test_sums_without_what_is_beyond_second_order_exceed_what_they_say(many):
    """The control."""
    found = np.array([ratios(kind, "logistic", seed, beyond=False) for kind in KINDS for seed in range(2)])
    assert (found > 3.0).sum() > 8


@pytest.mark.statistical(rate=1e-4)
def test_sums_of_first_order_say_their_errors_too(many, monkeypatch):
    """An error of one direction exceeds three said ones in 1 of 370: four of 64 levels do so in less than 10^-4."""
    monkeypatch.setattr(average_sums, "_MOST_BYTES", 100)
    monkeypatch.setattr(average_sums, "_MIN_ROWS", 300)
    found = np.array([ratios(kind, "logistic", seed) for kind in KINDS for seed in range(32 // len(KINDS))])
    assert (found > 3.0).sum() <= 3
    assert 0.5 < np.sqrt((found**2).mean()) < 1.3


@pytest.mark.slow
@pytest.mark.parametrize("argument", ["by", "variables"])
def test_many_levels_take_bounded_memory(argument, monkeypatch):
    """Second derivatives of 200 cells in 200 columns alone would take 64 MB."""
    monkeypatch.setattr(average_sums, "EVERY_ROW", 1000)
    monkeypatch.setattr(average_sums, "_MOST_BYTES", 2**22)
    n = 10_000 if argument == "by" else 1200
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"x": rng.normal(size=n), "shop": [f"s{k % 200:03}" for k in range(n)]})
    rows["y"] = rng.random(n) < expit(rows["x"])
    core = bc.all_rows(rows, formula="y ~ x + shop", progressbar=False)
    beta = rng.normal(size=(400, core.n_features)) * 0.1  # more than columns
    if argument == "by":
        own = ContrastCells(core.design, True, by=("shop",), values=(tuple(map(float, range(200))),))
    else:
        changes = tuple((Change(value=float(k)),) for k in range(200))
        own = ContrastCells(core.design, True, variable="shop", contrasts=changes)
    dataset, at = Dataset(core.as_source(), core.design, progress=False), Predictor(beta)
    tracemalloc.start()
    found = sums_by_sample(dataset, own, at, FAMILIES["logistic"], size=2000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    exact = sums_of_every_row(dataset, own, at, FAMILIES["logistic"])
    assert peak < 70 * 2**20  # 95 and 207 MB without a bound
    within = np.sqrt(((found.values - exact.values) ** 2).mean(axis=1)) <= 4.0 * found.error + 1e-9 * exact.weight
    assert within.mean() > 0.9


def test_the_same_rows_are_sampled_whatever_the_blocks_and_threads(many):
    rows, _, draws = problem("rare column", "logistic", 0)
    core = bc.all_rows(rows.X, rows.y, progressbar=False)
    changes = tuple((Change(value=value),) for value in (0.0, 1.0))
    cells = ContrastCells(core.design, True, variable=core.feature_names[-1], contrasts=changes)
    values = []
    for block_rows, cores in ((512, 1), (2048, 2), (None, 1)):
        dataset = Dataset(core.as_source(), core.design, progress=False, block_rows=block_rows, cores=cores)
        values.append(sums_by_sample(dataset, cells, Predictor(draws), FAMILIES["logistic"], size=300))
    for each in values[1:]:
        np.testing.assert_allclose(each.values, values[0].values, rtol=1e-12)
        np.testing.assert_allclose(each.error, values[0].error, rtol=1e-6)


SCALES = (1e-12, 1e-6, 1e6, 1e12)


@pytest.fixture(scope="module")
def of_scales():
    """Return fits of the same rows with columns of other scales, by scale, and their rows."""
    rng = np.random.default_rng(8)
    rows = pd.DataFrame({"x": rng.normal(3.0, 1.0, 900), "few": rng.integers(1, 5, 900)})
    rows["one"] = rng.integers(0, 2, 900)
    eta = 0.6 * (rows["x"] - 3.0) + 0.3 * rows["few"] + 0.5 * rows["one"]
    rows["n"] = rng.poisson(np.exp(0.3 * eta))
    found = {}
    for scale in (1.0, *SCALES):
        scaled = rows.assign(**{name: scale * rows[name] for name in ("x", "few", "one")})
        fit = bc.fit("n ~ x + few + one", scaled, family="poisson", random_state=1, progressbar=False)
        found[scale] = fit, scaled
    return found


@pytest.mark.parametrize("scale", SCALES)
def test_averages_and_slopes_are_alike_at_every_scale(of_scales, scale):
    (fit, rows), (known, plain) = of_scales[scale], of_scales[1.0]
    for ask in (
        lambda fit, _: fit.average_predictions(by="few")["mean"],
        lambda fit, _: fit.average_predictions(variables="few")["mean"],
        lambda fit, rows: fit.average_predictions(by="one", data=rows)["mean"],
        lambda fit, rows: fit.predict(rows.iloc[:9])["mean"],
        lambda fit, _: fit.check()["predicted"],
    ):
        np.testing.assert_allclose(ask(fit, rows), ask(known, plain), rtol=1e-6)
    for name in ("x", "few"):
        np.testing.assert_allclose(scale * fit.slopes(name)["mean"], known.slopes(name)["mean"], rtol=1e-6)
        own, other = fit.comparisons(name, step=2.0 * scale), known.comparisons(name, step=2.0)
        np.testing.assert_allclose(own["mean"], other["mean"], rtol=1e-6)
    levels = fit.average_predictions(by="few").iloc[:, 0].astype(float)
    np.testing.assert_allclose(levels, scale * np.arange(1.0, 5.0), rtol=1e-9)
    table = fit.summary(scale="response")
    wanted = known.summary(scale="response").loc["x", "mean"]
    assert scale * table.loc["x", "mean"] == pytest.approx(wanted, rel=1e-6)
    assert table.loc["one", "contrast"] == "dY/dX"  # 0 and 1e-12 are no 0 and 1


@pytest.mark.parametrize("scale", SCALES)
def test_rows_of_a_design_tell_values_of_every_scale(of_scales, scale):
    fit, rows = of_scales[scale]
    designed = bc.all_rows(rows, family="poisson", design=fit.coreset.design, progressbar=False)
    found = fit.average_predictions(data=designed, by="few")["mean"]
    np.testing.assert_allclose(found, fit.average_predictions(by="few")["mean"], rtol=1e-6)


def test_identifiers_as_numbers_are_apart():
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"x": rng.normal(size=600), "id": 4_000_000_000_000_000 + rng.integers(0, 3, 600)})
    rows["y"] = rows["x"] + rng.logistic(size=600) > 0
    fit = bc.fit("y ~ x + id", rows, random_state=1, progressbar=False)
    found = fit.average_predictions(by="id")
    assert found["id"].tolist() == sorted(rows["id"].unique())
