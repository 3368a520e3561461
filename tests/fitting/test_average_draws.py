"""Draws of averages, contrasts of any two levels, parts by any columns, and counts at exposures."""

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.data.dataset import Dataset
from bayescore.fitting import predictions
from bayescore.validation import DataError

QUIET = {"progressbar": False}
N = 2400


def made(response="labels"):
    rng = np.random.default_rng(21)
    rows = pd.DataFrame(
        {"dose": rng.normal(3, 1, N), "drug": rng.choice(["a", "b", "c"], N), "ward": rng.integers(0, 6, N)}
    )
    rows["site"], rows["year"] = rng.choice(["north", "south"], N), rng.integers(2019, 2022, N)
    rows["urgent"], rows["days"] = rng.random(N) < 0.3, rng.uniform(0.5, 3.0, N)
    eta = 0.4 * (rows["dose"] - 3) + 0.7 * (rows["drug"] == "b") + 0.2 * rows["ward"] - 0.5
    if response == "labels":
        return rows.assign(y=eta + rng.logistic(size=N) > 0)
    return rows.assign(y=rng.poisson(rows["days"] * np.exp(0.5 * eta)))


@pytest.fixture(scope="module")
def rows():
    return made()


@pytest.fixture(scope="module")
def flat(rows):
    return bc.fit("y ~ dose + drug", rows, random_state=1, **QUIET)


@pytest.fixture(scope="module")
def grouped(rows):
    return bc.fit("y ~ dose + drug + (1 | ward)", rows, random_state=1, **QUIET)


@pytest.fixture(scope="module")
def counts():
    rows = made("counts")
    exposed = bc.fit("y ~ dose + drug", rows, exposure="days", family="poisson", random_state=1, **QUIET)
    return rows, exposed


QUESTIONS = {
    "comparisons": lambda fit, **own: fit.comparisons("drug", by="site", **own),
    "pairs": lambda fit, **own: fit.comparisons("drug", against="pairwise", comparison="ratio", **own),
    "slopes": lambda fit, **own: fit.slopes("dose", by=["site", "year"], **own),
    "predictions": lambda fit, **own: fit.average_predictions(by=["urgent", "drug"], **own),
    "all": lambda fit, **own: fit.average_predictions(**own),
    "levels": lambda fit, **own: fit.average_predictions(variables="drug", **own),
    "population": lambda fit, **own: fit.poststratify(
        made()[:60].assign(n=2.0), by=["site", "year"], weights="n", **own
    ),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", ["flat", "grouped"])
def test_draws_are_those_of_the_table(kind, question, request):
    fit, ask = request.getfixturevalue(kind), QUESTIONS[question]
    table, drawn = ask(fit, max_draws=400), ask(fit, draws=True, max_draws=400)
    assert drawn.dims[:2] == ("chain", "draw")
    assert drawn.sizes["chain"] * drawn.sizes["draw"] == 400
    flat = drawn.values.reshape(400, -1)
    assert np.allclose(table["mean"], flat.mean(axis=0), rtol=1e-12)
    assert np.allclose(table[["2.5%", "97.5%"]].T, np.quantile(flat, [0.025, 0.975], axis=0))
    for name, null in (("P(>0)", 0.0), ("P(>1)", 1.0)):
        if name in table:
            assert np.allclose(table[name], (flat > null).mean(axis=0))
    assert drawn.attrs["level"] == fit.level
    assert np.array_equal(drawn["draw"], fit.idata.posterior["draw"][np.linspace(0, 999, 100).round().astype(int)])


def test_which_tables_have_a_probability(flat):
    asked = {"difference": "P(>0)", "ratio": "P(>1)", "odds": "P(>1)"}
    for comparison, name in asked.items():
        assert [own for own in flat.comparisons("drug", comparison=comparison) if own.startswith("P(")] == [name]
    assert "P(>0)" in flat.slopes("dose")
    assert not [name for name in flat.average_predictions() if name.startswith("P(")]


def test_parts_and_contrasts_are_chosen_by_name(grouped, rows):
    drawn = grouped.comparisons("drug", by=["site", "ward"], draws=True)
    assert drawn.dims == ("chain", "draw", "contrast", "part")
    one = drawn.sel(contrast="b - a", site="south", ward=4)
    table = grouped.comparisons("drug", by=["site", "ward"])
    row = table[(table["contrast"] == "b - a") & (table["site"] == "south") & (table["ward"] == 4)]
    assert float((one > 0).mean()) == row["P(>0)"].item()
    alone = grouped.comparisons("drug", by="ward", data=rows[rows["site"] == "south"])
    known = alone[(alone["contrast"] == "b - a") & (alone["ward"] == 4)]
    assert row["mean"].item() == pytest.approx(known["mean"].item(), rel=1e-9)


def test_draws_take_no_pass_more_than_the_table(grouped, monkeypatch):
    passes = []
    own = Dataset.map
    monkeypatch.setattr(Dataset, "map", lambda self, *told, **how: passes.append(1) or own(self, *told, **how))
    grouped.comparisons("drug", by="site")
    n = len(passes)
    grouped.comparisons("drug", by="site", draws=True)
    assert len(passes) == 2 * n


def test_contrasts_of_any_two_levels_follow_from_the_averages(flat):
    p = flat.average_predictions(variables="drug", draws=True)
    each = {level: p.sel(drug=level).values for level in "abc"}
    ways = {
        "difference": lambda one, other: one - other,
        "ratio": lambda one, other: one / other,
        "odds": lambda one, other: one / (1 - one) / (other / (1 - other)),
    }
    pairs = {"first": ["ba", "ca"], "pairwise": ["ba", "ca", "cb"], "b": ["ab", "cb"]}
    for comparison, way in ways.items():
        for against, names in pairs.items():
            found = flat.comparisons("drug", against=against, comparison=comparison, draws=True)
            assert found.sizes["contrast"] == len(names)
            for k, (one, other) in enumerate(names):
                assert np.allclose(found[:, :, k], way(each[one], each[other]), rtol=1e-10)
    named = flat.comparisons("drug", against="pairwise", comparison="odds")["contrast"].tolist()
    assert named == ["odds(b) / odds(a)", "odds(c) / odds(a)", "odds(c) / odds(b)"]
    assert flat.comparisons("dose", comparison="odds", step=2)["contrast"].tolist() == ["odds(+2) / odds(+0)"]


def test_levels_that_are_numbers_are_named_either_way(rows):
    fit = bc.fit("y ~ dose + C(ward) + urgent", rows, random_state=1, **QUIET)
    found = [fit.comparisons("ward", against=level)["contrast"].tolist() for level in (2, "2")]
    assert found[0] == found[1] == ["0 - 2", "1 - 2", "3 - 2", "4 - 2", "5 - 2"]
    turned = [fit.comparisons("urgent", against=level)["mean"].item() for level in ("first", 1)]
    assert turned[0] == pytest.approx(-turned[1])


def test_errors_of_pairs_cover_those_of_a_sample(flat, monkeypatch):
    """A pair's error is at most the sum of two that 5 standard errors bound, but in 6 of 10 million cases."""
    from bayescore.diagnostics import averages

    asked = {"against": "pairwise"}
    exact = {c: flat.comparisons("drug", comparison=c, **asked) for c in ("difference", "ratio", "odds")}
    for name, value in (("EVERY_ROW", 1000), ("SAMPLE_ROWS", 200), ("_ERROR_SHARE", 5.0)):
        monkeypatch.setattr(averages, name, value)
    for comparison, table in exact.items():
        found = flat.comparisons("drug", comparison=comparison, **asked)
        assert (found["sampling_se"] > 0.0).all()
        assert ((found["mean"] - table["mean"]).abs() < 5.0 * found["sampling_se"]).all(), comparison


SOURCES = ("frame", "csv", "parquet", "polars", "dask")


def source(kind, rows, folder):
    if kind == "polars":
        return pytest.importorskip("polars").from_pandas(rows)
    if kind == "dask":
        return pytest.importorskip("dask.dataframe").from_pandas(rows, npartitions=3)
    if kind == "csv":
        rows.to_csv(folder / "rows.csv", index=False)
    elif kind == "parquet":
        rows.to_parquet(folder / "rows.parquet")
    return rows if kind == "frame" else folder / f"rows.{kind}"


@pytest.mark.parametrize("kind", SOURCES)
def test_rows_are_parted_by_columns_that_the_formula_does_not_have(kind, grouped, rows, tmp_path):
    data, ways = source(kind, rows, tmp_path), ("site", "urgent", ["ward", "year"], ["site", "drug"])
    p = grouped.predict(rows, kind="draws").to_numpy().mean(axis=0)
    other = bc.fit("y ~ dose + drug + (1 | ward)", data, random_state=1, **QUIET)
    for by in ways:
        known = rows.assign(p=p).groupby(by)["p"].mean()
        for fit, given in ((grouped, data), (other, None)):
            found = fit.average_predictions(by=by, data=given)
            labels = found[by].to_numpy().tolist()
            assert labels == (known.index.tolist() if isinstance(by, str) else [list(own) for own in known.index])
            assert np.allclose(found["mean"], known, atol=0.004 if fit is grouped else 0.02), by


def test_weights_count_in_parts(rows):
    heavy = rows.assign(w=1.0 + 3.0 * (rows["dose"] > 3))
    fit = bc.fit("y ~ dose + drug", heavy, weights="w", random_state=1, **QUIET)
    p = fit.predict(heavy, kind="draws").to_numpy().mean(axis=0)
    known = [np.average(p[own], weights=heavy["w"][own]) for own in (rows["site"] == "north", rows["site"] == "south")]
    assert np.allclose(fit.average_predictions(by="site")["mean"], known, atol=0.004)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda fit: fit.comparisons("drug", by="nurse"), "by='nurse' is no column of the data: 'dose', 'drug'"),
        (lambda fit: fit.comparisons("drug", by="nurse", data=made()), "by='nurse' is no column of the data"),
        (lambda fit: fit.comparisons("drug", by=["site", "site"]), "names a column twice"),
        (lambda fit: fit.comparisons("drug", by=3), "by=3 is no name"),
        (lambda fit: fit.comparisons("drug", by="days"), r"by \(column 'days'\) holds numbers that are not whole"),
        (lambda fit: fit.comparisons("drug", by="dose"), "by='dose' has more than 20 values"),
        (lambda fit: fit.comparisons("drug", against="d"), r"against='d' is no level of 'drug' \('a', 'b', 'c'\)"),
        (lambda fit: fit.comparisons("dose", against="b"), "'dose' is a column of numbers"),
        (lambda fit: fit.comparisons("drug", comparison="log"), "comparison='log'"),
        (lambda fit: fit.average_predictions(by="drug", variables="drug"), "which is set in all rows"),
        (lambda fit: fit.predict(made(), exposure="days"), "which takes no counts; leave it out"),
        (lambda fit: fit.average_predictions(by="site", data=made().assign(site=None)), r"by \(column 'site'\)"),
    ],
)
def test_bad_input_is_named(flat, ask, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ask(flat)


def test_a_fit_read_without_its_rows_is_parted_by_columns_of_data(flat, rows, tmp_path):
    flat.save(tmp_path / "model")
    again = bc.read_fit(tmp_path / "model")
    assert "fit.check()" in str(flat)
    assert "fit.check()" not in str(again)  # what it names next, it can answer
    with pytest.raises(DataError, match="does not have all its rows"):
        again.average_predictions(by="site")
    found = again.comparisons("drug", by="site", data=rows)
    pd.testing.assert_frame_equal(found, flat.comparisons("drug", by="site"))
    aggregated = bc.build_coreset(
        rows[["drug", "y"]], formula="y ~ drug", method="aggregate", standardize=True, random_state=1, **QUIET
    )
    fit = bc.fit(aggregated, random_state=1, **QUIET)
    with pytest.raises(DataError, match="by='site' is no column of the data: 'drug'; give rows that have it"):
        fit.average_predictions(by="site")
    assert fit.average_predictions(by="site", data=rows)["site"].tolist() == ["north", "south"]


def test_averages_that_take_too_much_memory_are_refused_before_a_pass(flat, monkeypatch):
    monkeypatch.setattr(predictions, "MAX_BYTES", 8 * 1000 * 5)
    assert len(flat.average_predictions(by="year")) == 3
    with pytest.raises(DataError, match=r"6 averages at 1,000 draws take 48,000 bytes \(limit 40,000\).*max_draws"):
        flat.average_predictions(by=["year", "site"])
    assert len(flat.average_predictions(by=["year", "site"], max_draws=400)) == 6


def test_odds_are_of_probabilities(counts):
    with pytest.raises(DataError, match="the family is 'poisson'; give comparison='ratio'"):
        counts[1].comparisons("drug", comparison="odds")
    assert counts[1].comparisons("drug", by="site", comparison="ratio")["P(>1)"].between(0.0, 1.0).all()


def test_expected_counts_are_rates_times_exposures(counts):
    rows, fit = counts
    new = rows[:5].reset_index(drop=True)
    rate = fit.predict(new)
    for exposure in ("days", new["days"].to_numpy(), list(new["days"])):
        found = fit.predict(new, exposure=exposure)
        assert np.allclose(found, rate.mul(new["days"], axis=0))
    draws = fit.predict(new, kind="draws", exposure="days")
    assert np.allclose(draws, fit.predict(new, kind="draws") * new["days"].to_numpy())
    none = fit.predict(new, kind="response", exposure=np.zeros(5))
    assert none.dtype == np.int64
    assert (none == 0).all()
    with pytest.raises(DataError, match="exposure has 4 entries and new 5 rows"):
        fit.predict(new, exposure=np.ones(4))
    with pytest.raises(DataError, match="exposure has 1 entries and new 5 rows; give one for each row"):
        fit.predict(new, exposure=2.0)
    with pytest.raises(DataError, match="exposure='night' is no column of the rows"):
        fit.predict(new, exposure="night")
    with pytest.raises(DataError, match="exposure"):
        fit.predict(new, exposure=-np.ones(5))


@pytest.mark.statistical(rate=1e-5)
@pytest.mark.parametrize("family", ["poisson", "negative_binomial(2)"])
def test_counts_are_drawn_of_their_exposure(family):
    """Means of 4,000 counts are within 5 standard errors, and variances within 30%, for each of 2 rows."""
    rows = made("counts").assign(log_days=lambda own: np.log(own["days"]))
    fit = bc.fit("y ~ dose + offset(log(days))", rows, family=family, random_state=1, **QUIET)
    new = pd.DataFrame({"dose": [2.0, 4.0], "days": [1.0, 1.0]})
    drawn = fit.predict(new, kind="response", exposure=[10.0, 40.0], random_state=3).to_numpy()
    mu = fit.predict(new, exposure=[10.0, 40.0])["mean"].to_numpy()
    variance = mu if family == "poisson" else mu + mu**2 / 2
    assert (np.abs(drawn.mean(axis=0) - mu) < 5.0 * np.sqrt(variance / len(drawn)) + 0.01 * mu).all()
    assert (np.abs(drawn.var(axis=0) / variance - 1.0) < 0.3).all()
    few = fit.predict(new, kind="response", random_state=3).to_numpy()  # the control: an exposure of 1
    assert (np.abs(few.mean(axis=0) - mu) > 5.0 * np.sqrt(variance / len(drawn))).all()
