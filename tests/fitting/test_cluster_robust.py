"""Cluster-robust draws: against R's survey and statsmodels, sums by hand, coverage, sources, words and errors."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

import bayescore as bc
from bayescore import cli
from bayescore.diagnostics.loo import loo
from bayescore.families.family import FAMILIES
from bayescore.fitting import clusters, route
from bayescore.fitting.clusters import ClusterSums, Labels, cluster_sums, robust_map
from bayescore.fitting.route import Given
from bayescore.models.posterior import Derivatives
from bayescore.validation import DataError
from tests.fitting.printed import one_line
from tests.published.survey_rows import CASES, LONELY_CASES, rows_of

PUBLISHED = Path(__file__).resolve().parents[1] / "published"
FLAT = bc.priors.Normal(0, 100)
QUIET = {"random_state": 1, "progressbar": False}


@pytest.fixture
def maps(monkeypatch):
    """Return the list of maps that fits are moved by."""
    found = []
    monkeypatch.setattr(clusters, "robust_map", lambda *given: found.append(robust_map(*given)) or found[-1])
    return found


def in_units(core, transport):
    """Return mode and covariance at the end of a map, in units of the data."""
    design, D = core.design, len(transport.end)
    A = (design.raw_coefficients(np.eye(D)) - design.raw_coefficients(np.zeros((D, D)))).T
    return design.raw_coefficients(transport.end[None])[0], A @ transport.root @ transport.root.T @ A.T


def made(n_clusters=60, each=20, seed=0, offset=0.0):
    """Return rows whose labels are dependent within schools, each of one of three regions."""
    rng = np.random.default_rng(seed)
    school = np.repeat(np.arange(n_clusters), each)
    region = np.array(["east", "north", "west"])[school % 3]
    shared, size = rng.normal(size=n_clusters)[school], rng.normal(size=n_clusters)[school]
    rows = pd.DataFrame({"size": size, "age": rng.normal(45, 12, len(school)), "school": school, "region": region})
    eta = 0.5 * size + 0.03 * (rows["age"] - 45) + offset
    rows["passed"] = stats.norm.cdf(0.6 * shared + 0.8 * rng.normal(size=len(school))) < 1 / (1 + np.exp(-eta))
    return rows.assign(w=rng.uniform(0.5, 2.0, len(school)))


@pytest.fixture(scope="module")
def rows():
    return made()


@pytest.fixture(scope="module")
def fit(rows):
    return bc.fit("passed ~ size + age", rows, **QUIET)


@pytest.fixture(scope="module")
def robust(fit):
    return fit.cluster_robust("school")


@pytest.mark.parametrize("case", [*CASES, *LONELY_CASES])
@pytest.mark.filterwarnings("ignore:there are 13 clusters", "ignore:each cluster is one row")
def test_standard_errors_are_those_of_svyglm_and_statsmodels(case, shared_data, maps):
    told, rows = dict((CASES | LONELY_CASES)[case]), rows_of(case, shared_data(f"{case.partition(',')[0]}.parquet"))
    fit = bc.fit(told.pop("formula"), rows, prior=FLAT, **told, **QUIET)
    mode, covariance = in_units(fit.coreset, maps[0])
    sd, names = np.sqrt(np.diagonal(covariance)), [name.replace("[", "").rstrip("]") for name in fit.summary().index]
    for file in ("survey", "survey_statsmodels"):
        known = json.loads((PUBLISHED / f"{file}.json").read_text()).get(case)
        if known is None or (case, file) == ("contraception, probit", "survey"):  # R has the expected curvature there
            continue
        own = {name.replace("[T.", "").rstrip("]").strip("()"): k for k, name in enumerate(known["names"])}
        places = [own[name] for name in names]
        assert np.abs(sd / np.array(known["sd"])[places] - 1).max() < 0.01
        assert np.abs((mode - np.array(known["mean"])[places]) / sd).max() < 0.01
    draws = fit.summary()  # 4,000 draws of ESS above 2,000: 4 standard errors
    assert np.abs(draws["sd"] / sd - 1).max() < 4 / np.sqrt(2 * 2000)
    assert np.abs((draws["mean"] - mode) / sd).max() < 4 / np.sqrt(2000)


def by_hand(rows, w, strata):
    """Return the maximum of the likelihood and the sandwich there, summed by pandas."""
    X, y, beta = np.column_stack([np.ones(len(rows)), rows[["size", "age"]]]), rows["passed"].to_numpy(), np.zeros(3)
    for _ in range(30):
        p = 1 / (1 + np.exp(-X @ beta))
        F = X.T @ (X * (w * p * (1 - p))[:, None])
        beta = beta + np.linalg.solve(F, X.T @ (w * (y - p)))
    scores = pd.DataFrame(X * (w * (y - p))[:, None]).groupby(rows["school"].to_numpy()).sum()
    stratum = np.zeros(len(scores)) if strata is None else rows.groupby("school")[strata].first().to_numpy()
    each = [own.to_numpy() for _, own in scores.groupby(stratum)]
    J = sum(len(own) * np.cov(own.T) for own in each)
    return beta, np.linalg.inv(F) @ J @ np.linalg.inv(F)


@pytest.mark.parametrize("strata", [None, "region"])
@pytest.mark.parametrize("weights", [None, "w"])
def test_the_covariance_is_the_sandwich_and_the_draws_have_it(rows, maps, weights, strata):
    fit = bc.fit("passed ~ size + age", rows, prior=FLAT, weights=weights, **QUIET)
    found = fit.cluster_robust("school", strata=strata)
    beta, known = by_hand(rows, rows["w"].to_numpy() if weights else np.ones(len(rows)), strata)
    mode, covariance = in_units(fit.coreset, maps[0])
    sd = np.sqrt(np.diagonal(known))
    assert np.abs((covariance - known) / np.outer(sd, sd)).max() < 0.01
    assert np.abs((mode - beta) / sd).max() < 0.01
    draws = found.idata.posterior["coef"].values.reshape(-1, 3)
    assert np.abs(np.cov(draws.T) / np.outer(sd, sd) - known / np.outer(sd, sd)).max() < 0.1  # of 4,000 draws
    own = fit.idata.posterior["coef"].values.reshape(-1, 3)
    assert np.cov(own.T)[1, 1] < 0.5 * known[1, 1]  # as drawn


def sums_of(F, score, half):
    """Return sums whose scores of 40 clusters have the variance half half'."""
    D = len(F)
    scores = np.zeros((40, D))
    scores[:D], scores[D : 2 * D] = half.T, -half.T
    terms = Derivatives(0.0, np.array(score), F)
    return ClusterSums(
        terms, 40.0, scores * np.sqrt(39 / 80), np.zeros(40, dtype=np.int64), single=False, independent=np.eye(D)
    )


def test_where_clusters_vary_as_the_model_says_draws_stay():
    F = np.array([[50.0, 10.0], [10.0, 30.0]])
    found = robust_map(np.array([0.3, -0.2]), sums_of(F, [1.0, 2.0], np.linalg.cholesky(F)), bc.priors.Normal(0, 0.2))
    assert np.allclose(found.matrix, np.eye(2), atol=1e-12)
    assert np.allclose(found.start, found.end, atol=1e-12)
    wider = robust_map(np.array([0.3, -0.2]), sums_of(F, [1.0, 2.0], 2 * np.linalg.cholesky(F)), FLAT)
    assert np.allclose(wider.matrix, 2 * np.eye(2), atol=1e-3)


def test_a_prior_keeps_its_weight():
    """Of a likelihood N(b, 2^2 / F) and a prior N(0, s^2): moments of the product."""
    F, prior, point = np.array([[400.0]]), bc.priors.Normal(0, 0.2), np.array([0.5])
    found = robust_map(point, sums_of(F, [12.0], 2 * np.sqrt(F)), prior)
    information = np.array([F[0, 0] / 4, 1 / 0.2**2])
    assert np.isclose(found.root[0, 0] ** 2, 1 / information.sum())
    assert np.isclose(found.end[0], information @ [0.5 + 12 / 400, 0.0] / information.sum())


def test_the_scale_of_weights_cancels(rows, maps):
    for scale in (1.0, 1000.0):
        bc.fit("passed ~ size + age", rows.assign(w=scale * rows["w"]), weights="w", cluster="school", **QUIET)
    one, other = maps
    sd = np.sqrt(np.diagonal(one.root @ one.root.T))
    assert np.abs((one.end - other.end) / sd).max() < 0.01
    assert np.abs((one.root @ one.root.T - other.root @ other.root.T) / np.outer(sd, sd)).max() < 0.01
    assert other.stretch.max() > 20 * one.stretch.max()  # the draws themselves are not of one scale


@pytest.mark.filterwarnings("ignore:each cluster is one row")
def test_trials_of_a_cluster_are_as_good_as_its_rows(rows, maps):
    together = rows.groupby("school").agg(size=("size", "first"), k=("passed", "sum"), n=("passed", "size"))
    bc.fit("passed ~ size", rows, cluster="school", **QUIET)
    bc.fit("p(k, n) ~ size", together.reset_index(), cluster="school", **QUIET)
    one, other = maps
    sd = np.sqrt(np.diagonal(one.root @ one.root.T))
    assert np.abs((one.root @ one.root.T - other.root @ other.root.T) / np.outer(sd, sd)).max() < 0.01


def test_counts_are_summed_with_both_sides(rows, maps):
    rng = np.random.default_rng(3)
    counts = rows.assign(years=rng.uniform(0.5, 2.0, len(rows)))
    rate = np.exp(0.3 * counts["size"] - 1.0 + 0.7 * rng.normal(size=60)[counts["school"]])
    counts["visits"] = rng.poisson(counts["years"] * rate)
    fit = bc.fit("visits ~ size", counts, family="poisson", exposure="years", prior=FLAT, **QUIET)
    assert "intervals too narrow" in one_line(fit)
    found = fit.cluster_robust("school")
    assert "too narrow" not in one_line(found)
    assert f"{found.certificate.dispersion.finding}." in one_line(found)
    assert "counts are overdispersed." in one_line(found)
    X, beta = np.column_stack([np.ones(len(rows)), counts["size"]]), np.array([0.0, 0.0])
    for _ in range(30):
        mu = counts["years"].to_numpy() * np.exp(X @ beta)
        F = X.T @ (X * mu[:, None])
        beta = beta + np.linalg.solve(F, X.T @ (counts["visits"] - mu))
    scores = pd.DataFrame(X * (counts["visits"] - mu).to_numpy()[:, None]).groupby(counts["school"]).sum()
    known = np.linalg.inv(F) @ (60 / 59 * scores.T @ scores) @ np.linalg.inv(F)
    assert np.allclose(np.sqrt(np.diagonal(in_units(fit.coreset, maps[0])[1])), np.sqrt(np.diagonal(known)), rtol=0.01)


def surveys(n_trials, n_clusters=80, each=12):
    """Yield whether naive and robust 95% intervals cover the truth, (size, intercept), of made surveys."""
    for trial in range(n_trials):
        rows = made(n_clusters, each, seed=10_000 + trial)
        given = Given(rows, formula="passed ~ size", progressbar=False)
        core = bc.all_rows(rows, formula="passed ~ size", progressbar=False)
        naive = bc.find_map(core, prior=FLAT)
        dataset = clusters.full_rows(core, given.data, None, progress=False, clusters=["school"])
        sums = cluster_sums(dataset, FAMILIES["logistic"], naive.beta, (tuple(range(n_clusters)),))
        found = robust_map(naive.beta, sums, FLAT)
        yield [np.abs(naive.beta - [0, 0.5]) < 1.96 * naive.sd, np.abs(found.end - [0, 0.5]) < 1.96 * _sd(found)]


def _sd(found):
    return np.sqrt(np.diagonal(found.root @ found.root.T))


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-5)  # of 250 intervals a robust one covers with probability 0.93 to 0.96
def test_robust_intervals_cover_where_naive_ones_do_not():
    covered = np.array(list(surveys(250))).sum(axis=0)
    low, high = stats.binom.ppf(1e-6, 250, 0.93), stats.binom.isf(1e-6, 250, 0.96)
    assert (covered[1] >= low).all()
    assert (covered[1] <= high).all()
    assert (covered[0] < 0.85 * 250).all()  # the control


SOURCES = {
    "parquet": lambda rows, folder: rows.to_parquet(folder / "rows.parquet") or str(folder / "rows.parquet"),
    "row groups": lambda rows, folder: (
        rows.to_parquet(folder / "rows.parquet", row_group_size=170) or str(folder / "rows.parquet")
    ),
    "csv": lambda rows, folder: rows.to_csv(folder / "rows.csv", index=False) or str(folder / "rows.csv"),
    "arrow": lambda rows, _: pa.Table.from_pandas(rows),
    "lazy": lambda rows, _: pl.from_pandas(rows).lazy(),
    "text": lambda rows, _: rows.assign(school=[f"school {k:03d}" for k in rows["school"]]),
    "categories": lambda rows, _: rows.assign(region=pd.Categorical(rows["region"])),
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_draws(rows, source, tmp_path):
    formula = "passed ~ size + age"
    known = bc.fit(formula, rows, cluster="school", strata="region", **QUIET)
    found = bc.fit(formula, SOURCES[source](rows, tmp_path), cluster="school", strata="region", **QUIET)
    assert np.allclose(found.idata.posterior["coef"], known.idata.posterior["coef"], rtol=0, atol=1e-9)


def test_dask_gives_the_same_draws(rows):
    frame = pytest.importorskip("dask.dataframe").from_pandas(rows, npartitions=5)
    known, found = (bc.fit("passed ~ size", each, cluster="school", **QUIET) for each in (rows, frame))
    assert np.allclose(found.idata.posterior["coef"], known.idata.posterior["coef"], rtol=0, atol=1e-9)


def test_arrays_and_columns_are_alike(rows, fit, robust):
    by_array = fit.cluster_robust(rows["school"].to_numpy())
    assert by_array.spread == "cluster-robust by 60 clusters"
    assert np.array_equal(by_array.idata.posterior["coef"], robust.idata.posterior["coef"])
    X = rows[["size", "age"]].to_numpy()
    found = bc.fit(X, rows["passed"].to_numpy(), cluster=rows["school"].to_numpy(), **QUIET)
    assert np.allclose(found.summary()["sd"], robust.summary()["sd"], rtol=0.1)
    both = fit.cluster_robust(rows["school"].to_numpy(), strata=rows["region"].to_numpy())
    assert both.spread == "cluster-robust by 60 clusters in 3 strata"


def test_clusters_and_strata_may_be_features(rows):
    known = bc.fit("passed ~ size + region", rows, **QUIET).cluster_robust("school")
    found = bc.fit("passed ~ size + region", rows, cluster="school", strata="region", **QUIET)
    assert found.spread == "cluster-robust by 60 clusters of 'school' in 3 strata of 'region'"
    assert found.idata.posterior.sizes == known.idata.posterior.sizes
    whole = bc.fit("passed ~ size + school", rows, cluster="school", **QUIET)
    assert whole.spread == "cluster-robust by 60 clusters of 'school'"


def test_clusters_of_rows_of_weight_0_and_dropped_ones_count(rows):
    holes = rows.copy()
    holes.loc[::50, "w"] = 0.0
    holes.loc[holes["school"] == 7, "w"] = 0.0
    found = bc.fit("passed ~ size", holes, weights="w", cluster="school", **QUIET)
    assert found.spread == "cluster-robust by 60 clusters of 'school'"  # one has a score of 0
    holes.loc[5, "age"] = np.nan
    with pytest.warns(UserWarning, match="left out 1 of"):
        found = bc.fit("passed ~ age", holes, missing="drop", cluster="school", **QUIET)
    assert found.spread == "cluster-robust by 60 clusters of 'school'"


def inside_of(rows):
    """Return which rows are in the domain: those of 40 schools, and of region west one school alone."""
    return ((rows["school"] < 40) & ((rows["school"] % 3 < 2) | (rows["school"] == 2)) & (rows["age"] > 35)).to_numpy()


def of_domain(rows, w, strata):
    """Return maximum and sandwich of a domain whose design has all clusters, summed by pandas."""
    inside = inside_of(rows)
    beta, _ = by_hand(rows[inside], w[inside], None)
    X, y = np.column_stack([np.ones(len(rows)), rows[["size", "age"]]]), rows["passed"].to_numpy()
    p, w = 1 / (1 + np.exp(-X @ beta)), w * inside
    F = np.linalg.inv(X.T @ (X * (w * p * (1 - p))[:, None]))
    scores = pd.DataFrame(X * (w * (y - p))[:, None]).groupby(rows["school"].to_numpy()).sum()
    stratum = np.zeros(len(scores)) if strata is None else rows.groupby("school")[strata].first().to_numpy()
    J = sum(len(own) * np.cov(own.to_numpy().T) for _, own in scores.groupby(stratum))
    return beta, F @ J @ F


@pytest.mark.filterwarnings("ignore:there are 28 clusters")
@pytest.mark.parametrize("strata", [None, "region"])
@pytest.mark.parametrize("weights", [None, "w"])
def test_a_domain_keeps_all_clusters_of_the_design(rows, maps, weights, strata):
    w = rows["w"].to_numpy() if weights else np.ones(len(rows))
    beta, known = of_domain(rows, w, strata)
    sd = np.sqrt(np.diagonal(known))
    told = {"weights": weights, "cluster": "school", "strata": strata, "prior": FLAT, **QUIET}
    fit = bc.fit("passed ~ size + age", rows.assign(part=inside_of(rows)), domain="part", **told)
    mode, covariance = in_units(fit.coreset, maps[0])
    assert np.abs((covariance - known) / np.outer(sd, sd)).max() < 0.01
    assert np.abs((mode - beta) / sd).max() < 0.01
    assert "by 60 clusters" in fit.spread
    alone = bc.fit("passed ~ size + age", rows[inside_of(rows)], **{**told, "strata": None})  # the control
    assert "by 28 clusters" in alone.spread
    assert np.abs((in_units(alone.coreset, maps[-1])[1] - known) / np.outer(sd, sd)).max() > 0.02


def lonely_strata(rows):
    """Return ten strata: six have one school, three are regions, and one has schools from 40 on."""
    alone = rows["school"].isin([0, 1, 3, 4, 5, 59])
    return rows["region"].where(rows["school"] < 40, "far").mask(alone, "only " + rows["school"].astype(str))


def with_lonely(scores, stratum, lonely):
    """Return J by the formulas of R's survey (`onestrat`, `onestage`) of scores of clusters, written out."""
    total, n_strata, n_several = np.zeros((3, 3)), 0, 0
    for _, own in scores.groupby(stratum):
        u = own.to_numpy()
        n_strata += 1
        if len(u) > 1:
            total += len(u) / (len(u) - 1) * (u - u.mean(axis=0)).T @ (u - u.mean(axis=0))
            n_several += 1
        elif lonely == "adjust":
            centred = u - scores.to_numpy().mean(axis=0)
            total += centred.T @ centred
    return total * n_strata / n_several if lonely == "average" else total


@pytest.mark.filterwarnings("ignore:there are 28 clusters")
@pytest.mark.parametrize("lonely", ["adjust", "average"])
@pytest.mark.parametrize("inside", [False, True])
def test_strata_of_one_cluster_add_what_rs_survey_lets_them(rows, maps, lonely, inside):
    """In the domain "far" and two strata of one school have no rows, and are in no average."""
    rows = rows.assign(area=lonely_strata(rows), part=inside_of(rows) | (not inside))
    part = rows["part"].to_numpy()
    beta, _ = by_hand(rows[part], np.ones(part.sum()), None)
    X, y = np.column_stack([np.ones(len(rows)), rows[["size", "age"]]]), rows["passed"].to_numpy()
    p = 1 / (1 + np.exp(-X @ beta))
    F = np.linalg.inv(X.T @ (X * (part * p * (1 - p))[:, None]))
    scores = pd.DataFrame(X * (part * (y - p))[:, None]).groupby(rows["school"].to_numpy()).sum()
    assert np.abs(scores.to_numpy().mean(axis=0)).max() < 1e-9
    area = rows.groupby("school")["area"].first()
    if inside and lonely == "average":
        kept = area.isin(rows["area"][part].unique())
        scores, area = scores[kept], area[kept]
        assert area.nunique() == 7
    known = F @ with_lonely(scores, area.to_numpy(), lonely) @ F
    sd = np.sqrt(np.diagonal(known))
    told = {"cluster": "school", "strata": "area", "prior": FLAT, **({"domain": "part"} if inside else {}), **QUIET}
    fit = bc.fit("passed ~ size + age", rows, lonely=lonely, **told)
    _, covariance = in_units(fit.coreset, maps[0])
    assert np.abs((covariance - known) / np.outer(sd, sd)).max() < 0.01
    assert fit.spread.endswith(f"in 10 strata of 'area', 6 with one cluster (lonely='{lonely}')")
    bc.fit("passed ~ size + age", rows, lonely={"adjust": "average", "average": "adjust"}[lonely], **told)
    assert np.abs((in_units(fit.coreset, maps[1])[1] - known) / np.outer(sd, sd)).max() > 0.05  # the control
    with pytest.raises(DataError, match=r"stratum 'only 0' has one cluster, 0, and 6 of 10 strata.*lonely='adjust'"):
        bc.fit("passed ~ size + age", rows, **told)


def test_where_each_stratum_has_one_cluster_their_scores_are_about_the_mean_of_all(rows, fit, maps):
    fit.cluster_robust("school")
    own = bc.fit("passed ~ size + age", rows.assign(own=rows["school"]), **QUIET)
    own.cluster_robust("school", strata="own", lonely="adjust")
    one, other = maps
    J, F = (np.linalg.inv(each.root @ each.root.T) for each in (one, other))  # information, as the prior says little
    assert np.allclose(J * 60 / 59, F, rtol=0.01)
    with pytest.raises(DataError, match=r"60 clusters less 60 strata are fewer than the 3 .*, or give lonely='adjust'"):
        own.cluster_robust("school", strata="own", lonely="average")


def test_lonely_strata_are_said_and_kept(rows, tmp_path, capsys):
    rows = rows.assign(area=lonely_strata(rows))
    told = {"cluster": "school", "strata": "area", "lonely": "average", **QUIET}
    known = bc.fit("passed ~ size", rows, **told)
    said = "cluster-robust by 60 clusters of 'school' in 10 strata of 'area', 6 with one cluster (lonely='average')"
    assert known.spread == said
    assert f"Spread: {said}" in one_line(known)
    known.save(tmp_path / "fit")
    again = bc.read_fit(tmp_path / "fit", rows, progressbar=False)
    again.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8").replace("&#39;", "'")
    assert "cluster='school', strata='area', lonely='average', random_state=1)" in page
    repeated = again.cluster_robust(None).cluster_robust("school", strata="area", lonely="average")
    assert repeated.summary().equals(known.summary())
    file, other = str(tmp_path / "rows.csv"), str(tmp_path / "other")
    rows.to_csv(file, index=False)
    words = ["--cluster", "school", "--strata", "area", "--lonely", "average", "--seed", "1", "--quiet"]
    assert cli.main(["fit", file, "passed ~ size", *words, "-o", other]) == 0
    assert bc.read_fit(other, progressbar=False).spread == said
    assert cli.main(["predict", other, file, "-o", str(tmp_path / "p.csv")]) == 0
    assert "certified, cluster-robust by 60 clusters\n" in capsys.readouterr().out
    dask = pytest.importorskip("dask.dataframe").from_pandas(rows, npartitions=5)
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=170)
    arrays = {"cluster": rows["school"].to_numpy(), "strata": rows["area"].to_numpy()}
    for data, roles in ((dask, {}), (tmp_path / "rows.parquet", {}), (rows, arrays)):
        found = bc.fit("passed ~ size", data, **{**told, **roles})
        assert np.allclose(found.idata.posterior["coef"], known.idata.posterior["coef"], rtol=0, atol=1e-9)
        assert found.spread.endswith("6 with one cluster (lonely='average')")


def test_an_average_of_no_other_stratum_is_named(rows):
    """A domain whose rows are in strata of one cluster, where others have several."""
    rows = rows.assign(area=np.where(rows["school"] < 12, rows["school"], 99), part=rows["school"] < 12)
    told = {"cluster": "school", "strata": "area", "domain": "part", **QUIET}
    with pytest.raises(DataError, match="all rows of the fit are in strata of one: give lonely='adjust'"):
        bc.fit("passed ~ size", rows, lonely="average", **told)
    assert "12 with one cluster" in bc.fit("passed ~ size", rows, lonely="adjust", **told).spread


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.filterwarnings("ignore:there are 9 clusters", "ignore:each cluster is one row")
@pytest.mark.parametrize("weight", [None, "w"])
def test_numbers_of_an_unknown_sd_have_the_sandwich_of_least_squares(weight):
    """White's HC0 times G / (G - 1), whatever the draws of sigma; 4,000 independent draws of about a Student t.

    Of kurtosis 9 at most their sd has the standard error sqrt(8 / 16,000), so that 5.5 of these are 12%: 4e-8 each.
    """
    rng = np.random.default_rng(4)
    rows = pd.DataFrame({"x": rng.normal(size=9), "w": rng.integers(1, 3, 9), "c": np.arange(9)})
    rows["y"] = 3.0 + rows["x"] + rng.normal(size=9) * (1.0 + abs(rows["x"]))
    w, X = np.ones(9) if weight is None else rows["w"], np.column_stack([np.ones(9), rows["x"]])
    bread = np.linalg.inv((X * np.asarray(w)[:, None]).T @ X)
    scores = X * (w * (rows["y"] - X @ bread @ X.T @ (w * rows["y"]))).to_numpy()[:, None]
    sd = np.sqrt(np.diagonal(bread @ scores.T @ scores @ bread) * 9 / 8)
    told = {"family": "normal", "weights": weight, "random_state": 1, "prior": bc.priors.Normal(0, 1e4), **QUIET}
    fit = bc.fit("y ~ x", rows, **told)
    found = fit.cluster_robust("c").summary().loc[["Intercept", "x"]]
    assert np.abs(found["sd"] / sd - 1.0).max() < 0.12
    residual = (
        fit.coreset.params["sd"] / fit._posterior().size
    )  # the control: the sd of least squares in place of draws
    assert np.sqrt((residual**-2).mean()) > 1.12


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("family", ["logistic", "normal"])
def test_rows_of_weight_0_are_outside_of_the_domain_in_every_source(rows, source, family, tmp_path):
    formula = {"logistic": "passed ~ size + age", "normal": "age ~ size"}[family]
    told = {"cluster": "school", "strata": "region", "family": family, **QUIET}
    known = bc.fit(formula, rows, domain=inside_of(rows).astype(int), **told)
    given = SOURCES[source](rows.assign(part=inside_of(rows).astype(float)), tmp_path)
    found = bc.fit(formula, given, weights="part", **told)
    assert "by 60 clusters" in found.spread
    assert np.allclose(found.idata.posterior["coef"], known.idata.posterior["coef"], rtol=0, atol=1e-9)
    found.save(tmp_path / "fit")
    again = bc.read_fit(tmp_path / "fit", given, progressbar=False).cluster_robust(None)
    assert np.allclose(again.cluster_robust("school", strata="region").idata.posterior["coef"],
                       found.idata.posterior["coef"], rtol=0, atol=1e-9)  # fmt: skip


@pytest.mark.parametrize("source", [name for name in SOURCES if name in ("parquet", "csv", "lazy")])
@pytest.mark.parametrize("weights", [None, "w"])
def test_a_domain_of_a_file_is_that_of_a_frame(rows, source, weights, tmp_path):
    rows = rows.assign(part=inside_of(rows))
    told = {"cluster": "school", "strata": "region", "domain": "part", "weights": weights, **QUIET}
    known = bc.fit("passed ~ size + age", rows, **told)
    given = SOURCES[source](rows, tmp_path)
    found = bc.fit("passed ~ size + age", given, **told)
    assert found.spread == known.spread
    assert np.allclose(found.idata.posterior["coef"], known.idata.posterior["coef"], rtol=0, atol=1e-9)
    found.save(tmp_path / "fit")
    again = bc.read_fit(tmp_path / "fit", given, progressbar=False).cluster_robust(None)
    assert again.update(rows.head(200)).coreset.n_total == found.coreset.n_total + int(rows["part"].head(200).sum())
    bad = SOURCES[source](rows.assign(part=2.0), tmp_path)
    with pytest.raises(DataError, match="domain has a row of 2; give True or 1 inside"):
        bc.fit("passed ~ size + age", bad, **told)


def test_the_command_line_fits_a_domain(rows, tmp_path):
    rows = rows.assign(part=inside_of(rows))
    rows.to_csv(tmp_path / "rows.csv", index=False)
    told = ["--cluster", "school", "--domain", "part", "--weights", "w", "--seed", "1", "--quiet"]
    assert cli.main(["fit", str(tmp_path / "rows.csv"), "passed ~ size", *told, "-o", str(tmp_path / "fit")]) == 0
    known = bc.fit("passed ~ size", rows, cluster="school", domain="part", weights="w", **QUIET)
    found = bc.read_fit(tmp_path / "fit", progressbar=False)
    assert found.spread == known.spread
    assert found.coreset.n_total == known.coreset.n_total


def test_counts_and_arrays_have_domains(rows):
    counts = rows.assign(visits=np.random.default_rng(3).poisson(np.exp(0.3 * rows["size"])), part=inside_of(rows))
    found = bc.fit("visits ~ size", counts, family="poisson", exposure="w", cluster="school", domain="part", **QUIET)
    assert found.spread == "cluster-robust by 60 clusters of 'school'"
    X, y = rows[["size", "age"]].to_numpy(), rows["passed"].to_numpy()
    told = {"cluster": rows["school"].to_numpy(), "weights": rows["w"].to_numpy(), "domain": inside_of(rows)}
    assert bc.fit(X, y, **told, **QUIET).spread == "cluster-robust by 60 clusters"


def test_domains_that_are_none_are_named(rows):
    told = {"cluster": "school", **QUIET}
    with pytest.raises(DataError, match="domain is given without cluster"):
        bc.fit("passed ~ size", rows, domain="w", **QUIET)
    with pytest.raises(DataError, match=r"domain is 1.7\d* in row 0; give True or 1 inside"):
        bc.fit("passed ~ size", rows, domain="w", **told)
    with pytest.raises(DataError, match="domain='part' is not a column of the data"):
        bc.fit("passed ~ size", rows, domain="part", **told)
    with pytest.raises(DataError, match="domain has no rows"):
        bc.fit("passed ~ size", rows, domain=np.zeros(len(rows), bool), **told)
    with pytest.raises(DataError, match="weights is an array, and domain a column"):
        bc.fit("passed ~ size", "rows.parquet", domain="part", weights=rows["w"], **told)


def test_everything_says_so(fit, robust, tmp_path):
    said = "cluster-robust by 60 clusters of 'school'"
    assert [step.what for step in robust.story] == ["build", "sample", "certify", "cluster"]
    assert f"Spread: {said}" in one_line(robust)
    assert "cluster-robust" not in repr(fit)
    new = pd.DataFrame({"size": [0.0], "age": [40.0]})
    for table in (robust.summary(), robust.predict(new), robust.slopes("size"), robust.check()):
        assert table.attrs == {"level": "certified", "spread": said}
        assert repr(table).endswith(f"\nspread: {said}")
    assert robust.predict(new, kind="draws").attrs["spread"] == said
    assert robust.predict(new)["sd"][0] > 1.3 * fit.predict(new)["sd"][0]
    assert robust.plot().get_title(loc="left") == "certified, cluster-robust by 60 clusters"
    robust.report(tmp_path / "robust.html")
    fit.report(tmp_path / "fit.html")
    page = (tmp_path / "robust.html").read_text("utf-8").replace("&#39;", "'")
    assert page.count(said) >= 3
    assert "cluster-robust" not in (tmp_path / "fit.html").read_text("utf-8")
    assert (robust.level, robust.certificate) == (fit.level, fit.certificate)


def test_an_sd_of_noise_keeps_the_spread_of_the_model_and_every_place_says_so(rows, tmp_path):
    kept = "by 60 clusters of 'school'{}; sigma keeps the model's"
    own = bc.fit("age ~ size", rows, family="normal", **QUIET)
    found = own.cluster_robust("school")
    assert found.summary()["sd"]["sigma"] == own.summary()["sd"]["sigma"]
    assert kept.format(", not the model's own") in one_line(found)
    assert found.summary().attrs["spread"].endswith(kept.format(""))
    found.report(tmp_path / "fit.html")
    assert kept.format("") in (tmp_path / "fit.html").read_text("utf-8").replace("&#39;", "'")
    given = bc.fit("age ~ size", rows, family="normal(12)", cluster="school", **QUIET)
    assert "keeps the model's" not in one_line(given)
    assert given.summary().attrs["spread"] == given.spread


def test_a_fit_of_draws_has_it_too(rows, robust):
    core = bc.build_coreset(rows, formula="passed ~ size + age", **QUIET)
    idata = bc.sample(core, random_seed=2, progressbar=False)
    found = bc.Fit.from_draws(idata, core, rows, progressbar=False).cluster_robust("school")
    assert np.allclose(found.summary()["sd"], robust.summary()["sd"], rtol=0.15)


def test_a_fit_in_files_keeps_its_spread(rows, robust, tmp_path):
    robust.save(tmp_path / "model")
    found = bc.read_fit(tmp_path / "model")
    assert found.spread == robust.spread
    assert found.summary().equals(robust.summary())
    with pytest.raises(DataError, match="does not have all its rows"):
        found.cluster_robust("school")
    again = bc.read_fit(tmp_path / "model", rows).cluster_robust("school", strata="region")
    assert again.spread == "cluster-robust by 60 clusters of 'school' in 3 strata of 'region'"


def test_the_model_s_own_spread_is_kept(fit, robust):
    own = robust.cluster_robust(None)
    assert (own.spread, own.story) == ("", fit.story)
    assert own.summary().equals(fit.summary())
    assert robust.cluster_robust("school").summary().equals(robust.summary())  # not moved twice


def test_what_is_of_the_model_s_posterior_says_so(rows, robust):
    for ask in (robust.loo, robust.prior_sensitivity, lambda: robust.with_prior(None), lambda: robust.update(rows)):
        with pytest.raises(DataError, match=r"cluster_robust\(None\)"):
            ask()
    with pytest.raises(DataError, match="no row can be left out of it"):
        loo(robust.idata, robust.coreset, rows, progressbar=False)
    certificate = bc.certify(robust.idata, robust.coreset, rows, progressbar=False)
    assert certificate.level == "not certified"


def test_few_clusters_and_clusters_of_one_row_are_said(rows, fit):
    with pytest.warns(UserWarning, match="there are 20 clusters: .* uncertain by about 16%"):
        found = fit.cluster_robust((rows["school"] % 20).to_numpy())
    assert "warning: there are 20 clusters" in found.story[-1].why
    with pytest.warns(UserWarning, match="each cluster is one row"):
        fit.cluster_robust(np.arange(len(rows)))


def test_a_column_of_one_cluster_is_said(rows):
    one = rows.assign(first=(rows["school"] == 0).astype(int), w=1000.0 * rows["w"])
    for weights in (None, "w"):
        fit = bc.fit("passed ~ size + first", one, weights=weights, prior=FLAT, **QUIET)
        with pytest.warns(UserWarning, match="tells one cluster from all others"):
            fit.cluster_robust("school")


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_of_text_beside_arrays_is_labels_of_rows_and_no_names(kind):
    own = kind(["east", "west", "east"])
    assert Labels.of(own, None, Given(np.zeros((3, 1)), np.zeros(3))).groups == {"cluster": own}
    named = pd.DataFrame({"east": [0.0, 1.0]})
    with pytest.raises(DataError, match="list of names"):
        Labels.of(own, None, Given(named, np.zeros(2)))  # the control: a table has names


BAD = {
    "no such column": ({"cluster": "schol"}, r"cluster='schol' is not a column"),
    "no such strata": ({"cluster": "school", "strata": "regio"}, r"strata='regio' is not a column"),
    "missing": ({"cluster": "holes"}, r"cluster \(column 'holes'\) is missing"),
    "strata missing": ({"cluster": "school", "strata": "holes"}, r"strata \(column 'holes'\) is missing"),
    "fractions": ({"cluster": "age"}, r"cluster \(column 'age'\) holds numbers that are not whole"),
    "length": ({"cluster": np.arange(7)}, r"cluster has shape \(7,\); it must be \(1200,\)"),
    "missing in an array": ({"cluster": np.append(np.zeros(1199), np.nan)}, "cluster is missing in"),
    "two strata": (
        {"cluster": "region", "strata": "school"},
        r"3 of 3 clusters are in more than one stratum, such as the cluster 'east' in 0 and 57",
    ),
    "too few in strata": ({"cluster": "four", "strata": "two"}, "4 clusters less 2 strata are fewer than the 3"),
    "names": ({"cluster": ["school"]}, "cluster is a list of names; make one column of them"),
    "names of strata": ({"cluster": "school", "strata": ("region", "w")}, "strata is a list of names"),
    "one cluster": ({"cluster": "one"}, "cluster has one level only, 1"),
    "lonely": ({"cluster": "school", "strata": "lonely"}, "the stratum 'alone' has one cluster, 5, and 1 of 2 strata"),
    "too few": ({"cluster": "region"}, "3 clusters less 1 stratum are fewer than the 3 coefficients"),
    "the same": ({"cluster": "school", "strata": "school"}, "both name the column 'school'"),
    "a name and an array": ({"cluster": "school", "strata": np.zeros(1200)}, "one is a name and one an array"),
    "strata alone": ({"cluster": None, "strata": "region"}, "strata is given without cluster"),
    "lonely without strata": ({"cluster": "school", "lonely": "adjust"}, "lonely='adjust' is for strata of one"),
    "lonely alone": ({"cluster": None, "lonely": "average"}, "strata is not given; leave lonely out"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("verb", ["fit", "method"])
def test_bad_labels_are_named(rows, case, verb):
    asked, message = BAD[case]
    holes = rows["school"].where(rows.index != 700)
    bad = rows.assign(holes=holes, one=1, lonely=np.where(rows["school"] == 5, "alone", "others"))
    bad = bad.assign(four=rows["school"] % 4, two=rows["school"] % 2)
    found = None if verb == "fit" else bc.fit("passed ~ size + age", bad, **QUIET)
    with pytest.raises(DataError, match=message):
        _ = found.cluster_robust(**asked) if found else bc.fit("passed ~ size + age", bad, **asked, **QUIET)


@pytest.mark.parametrize("asked", ["remove", "Adjust", None])
def test_ways_with_lonely_strata_are_named(rows, fit, asked):
    for call in (fit.cluster_robust, lambda cluster, **told: bc.fit("passed ~ size", rows, cluster=cluster, **told)):
        with pytest.raises(ValueError, match=f"lonely={asked!r} is unknown; choose one of 'raise', 'adjust', 'av"):
            call("school", strata="region", lonely=asked)


def test_columns_are_missed_before_any_work(rows, monkeypatch):
    monkeypatch.setattr(
        sys.modules["bayescore.fitting.fit"], "fit_given", lambda *_, **__: pytest.fail("the fit began")
    )
    for asked in ({"cluster": "schol"}, {"cluster": np.arange(3)}, {"cluster": "school", "strata": "school"}):
        with pytest.raises(DataError, match="cluster"):
            bc.fit("passed ~ size", rows, **asked, **QUIET)
    with pytest.raises(DataError, match="3 clusters less 1 stratum are fewer than the 3 coefficients"):
        bc.fit("passed ~ size + age", rows, cluster="region", **QUIET)
    lonely = rows.assign(lonely=np.where(rows["school"] == 5, "alone", "others"))
    with pytest.raises(DataError, match="the stratum 'alone' has one cluster, 5"):
        bc.fit("passed ~ size", lonely, cluster="school", strata="lonely", **QUIET)
    with pytest.raises(DataError, match="3 of 3 clusters are in more than one stratum"):
        bc.fit("passed ~ size", rows, cluster="region", strata="school", **QUIET)
    for prior in (bc.priors.Laplace(0, 1), bc.priors.Horseshoe(), {"size": bc.priors.Laplace(0, 1)}):
        with pytest.raises(DataError, match=r"prior.*=Laplace.*no curvature.*give another|Horseshoe.*give another"):
            bc.fit("passed ~ size", rows, cluster="school", prior=prior, **QUIET)
    with pytest.raises(DataError, match="is missing in some rows"):
        bc.fit("passed ~ size", rows.assign(school=rows["school"].where(rows.index != 7)), cluster="school", **QUIET)
    with pytest.raises(DataError, match="without a formula would be a feature"):
        bc.fit(rows[["size", "school", "passed"]], label="passed", cluster="school", **QUIET)
    with pytest.raises(DataError, match="those of data have no names"):
        bc.fit(rows[["size"]].to_numpy(), rows["passed"], cluster="school", **QUIET)
    with pytest.raises(DataError, match=r"has group terms.*group term \(1 \| school\) models"):
        bc.fit("passed ~ size + (1 | school)", rows, cluster="school", **QUIET)


def test_fits_that_cannot_be_moved_say_why(rows, fit):
    grouped = bc.fit("passed ~ size + (1 | school)", rows, **QUIET)
    with pytest.raises(DataError, match=r"the fit has \(1 \| school\)"):
        grouped.cluster_robust("school")
    kinked = bc.fit("passed ~ size", rows, prior=bc.priors.Laplace(0, 1), **QUIET)
    with pytest.raises(DataError, match=r"prior=Laplace\(mu=0, b=1\) has no curvature .* see with_prior"):
        kinked.cluster_robust("school")
    core, X = bc.all_rows(rows, formula="passed ~ size", progressbar=False), rows[["size"]].to_numpy()
    blocks = bc.fit(lambda: iter([(X, rows["passed"].to_numpy())]), **QUIET)
    for found in (bc.fit(core, **QUIET), blocks):
        with pytest.raises(DataError, match="has no clusters of its rows"):
            found.cluster_robust(rows["school"].to_numpy())
    with pytest.raises(DataError, match="came once"):
        bc.fit(iter([(X, rows["passed"].to_numpy())]), cluster=rows["school"].to_numpy(), **QUIET)
    shares = bc.fit("passed ~ size", rows.assign(w=rows["w"] / rows["w"].sum()), weights="w", **QUIET)
    with pytest.raises(DataError, match="divide them by their mean"):
        shares.cluster_robust("school")
    with pytest.raises(DataError, match="the prior says so much"):
        fit.with_prior(bc.priors.Normal(0, 0.05)).cluster_robust("school")


@pytest.mark.filterwarnings("ignore")
def test_separated_labels_are_named(rows):
    apart = rows.assign(passed=rows["size"] > 0)
    with pytest.raises(DataError, match="the labels are separated: drop the columns that separate them"):
        bc.fit("passed ~ size", apart, **QUIET).cluster_robust("school")


def test_labels_that_alone_are_missing_stop_the_fit_before_work(rows, monkeypatch):
    holes = rows.assign(school=rows["school"].where(rows.index != 7))
    drop = {"missing": "drop", "cluster": "school", **QUIET}
    with monkeypatch.context() as patched:
        patched.setattr(
            sys.modules["bayescore.fitting.fit"], "fit_given", lambda *_, **__: pytest.fail("the fit began")
        )
        with pytest.raises(DataError, match="some rows miss a label of cluster or strata, and nothing else"):
            bc.fit("passed ~ size", holes, **drop)
    with pytest.raises(DataError, match="leave such rows out of the data") as told:
        bc.fit("passed ~ size", rows, **QUIET).cluster_robust(holes["school"].to_numpy())
    assert "missing='drop'" not in str(told.value)
    holes.loc[7, "size"] = np.nan  # the fit leaves it out
    with pytest.warns(UserWarning, match="left out 1 of") as one:
        known = bc.fit("passed ~ size", holes, missing="drop", **QUIET)
    with pytest.warns(UserWarning, match="left out 1 of") as other:
        found = bc.fit("passed ~ size", holes, **drop)
    assert found.spread == "cluster-robust by 60 clusters of 'school'"
    assert found.coreset.n_total == known.coreset.n_total
    assert len(other) == len(one)


@pytest.mark.parametrize("error", [DataError, KeyboardInterrupt, MemoryError])
def test_an_error_after_the_fit_leaves_the_fit(rows, error, monkeypatch):
    prior, sampled = bc.priors.Normal(0, 0.02), []
    draw = route.sample_as_tree
    monkeypatch.setattr(route, "sample_as_tree", lambda *given, **named: sampled.append(1) or draw(*given, **named))
    if error is not DataError:
        prior = bc.priors.Normal(0, 2.5)

        def sums(*_, **__):
            raise error

        monkeypatch.setattr(clusters, "cluster_sums", sums)
    with pytest.raises(error, match="the prior says so much" if error is DataError else None) as caught:
        bc.fit("passed ~ size", rows, cluster="school", prior=prior, **QUIET)
    assert caught.value.__notes__ == ["bc.last_fit() returns the fit, whose cluster_robust does not sample again"]
    fit = bc.last_fit()
    monkeypatch.undo()
    assert fit.level == "certified"
    assert fit.spread == ""
    assert len(sampled) == 1
    if error is not DataError:
        assert fit.cluster_robust("school").spread.startswith("cluster-robust by 60 clusters")


def test_weights_beside_exposure_and_trials_give_no_false_warning(rows, recwarn):
    rng = np.random.default_rng(5)
    counts = rows.assign(years=1000.0, visits=rng.poisson(1000.0 * np.exp(0.3 * rows["size"] - 6.0)))
    own = {"weights": "w", "cluster": "school", **QUIET}
    found = [bc.fit("visits ~ size", counts, family="poisson", exposure="years", **own)]
    trials = rows.assign(n=1000, k=rng.binomial(1000, 1 / (1 + np.exp(6.0 - 0.3 * rows["size"]))))
    found += [bc.fit("p(k, n) ~ size", trials, **own)]
    for fit in found:
        assert fit.coreset.weight_total > 100 * fit.coreset.n_total
        assert not small_spread(fit)


def small_spread(fit):
    return re.search(r"combination of coefficients is (\S+) of", fit.story[-1].why)


@pytest.mark.filterwarnings("ignore:each cluster is one row|the cluster-robust sd of some")
def test_a_case_control_sample_by_weights_gives_no_false_warning():
    rng = np.random.default_rng(6)
    many = pd.DataFrame({"x": rng.normal(size=60_000)})
    many["event"] = rng.random(60_000) < 1 / (1 + np.exp(5.5 - 0.5 * many["x"]))
    kept = many[many["event"] | (rng.random(60_000) < 0.02)].assign(row=lambda each: np.arange(len(each)))
    kept["w"] = np.where(kept["event"], 1.0, 50.0)
    assert 20 < kept["w"].mean() < 50  # a root of 4 to 7: divided by it the spread would seem small
    found = bc.fit("event ~ x", kept, weights="w", cluster="row", **QUIET)
    assert not small_spread(found)
    assert (found.summary()["sd"] > 0.8 * found.cluster_robust(None).summary()["sd"]).all()


@pytest.mark.parametrize(
    ("family", "response"), [("logistic", "event"), ("normal(5)", "amount"), ("poisson", "visits")]
)
def test_weights_far_apart_and_noise_given_too_large_give_no_false_warning(family, response):
    """Clusters are random: the true least ratio to independent rows is about 0.9."""
    rng = np.random.default_rng(0)
    many = pd.DataFrame({"minority": np.repeat([0, 1], 2000), "x": rng.normal(size=4000)})
    many["psu"], many["w"] = rng.integers(0, 200, 4000), np.where(many["minority"] == 1, 1.0, 50.0)
    many["event"] = rng.random(4000) < 1 / (1 + np.exp(-0.3 * many["x"]))
    many["amount"], many["visits"] = rng.normal(size=4000), rng.poisson(1.0, 4000)
    for scale in (0.005, 1.0):
        told = many.assign(w=scale * many["w"])
        fit = bc.fit(f"{response} ~ x + minority", told, family=family, weights="w", cluster="psu", **QUIET)
        assert not small_spread(fit)


@pytest.mark.filterwarnings("ignore:the cluster-robust sd of some")
@pytest.mark.parametrize("family", ["poisson", "logistic"])
def test_clusters_whose_rows_balance_each_other_are_said_to_at_any_scale_of_weights(family):
    """Each of 400 clusters has the same total, but for a tenth of them: the ratio is about sqrt(0.1 / 2.5)."""
    rng = np.random.default_rng(1)
    psu = np.repeat(np.arange(400), 10)
    y = rng.permuted(np.tile([0, 0, 0, 0, 0, 1, 1, 1, 1, 1], (400, 1)), axis=1)
    y[::10, 0] = 1 - y[::10, 0]
    rows = pd.DataFrame({"y": y.ravel(), "x": rng.normal(size=4000), "psu": psu})
    found = []
    for scale in (1.0, 500.0):
        fit = bc.fit("y ~ x", rows.assign(w=scale), family=family, weights="w", cluster="psu", **QUIET)
        found.append(float(small_spread(fit)[1]))
    assert 0.1 < found[0] < 0.3
    assert found[1] == pytest.approx(found[0], rel=0.1)


@pytest.mark.filterwarnings("ignore:the cluster-robust sd of some")
def test_a_column_of_one_cluster_is_warned_of_at_any_scale_of_weights(rows):
    own = rows.assign(first=(rows["school"] == rows["school"].iloc[0]).astype(float))
    for scale in (1.0, 1000.0):
        told = {"weights": own["w"].to_numpy() * scale, "cluster": own["school"].to_numpy(), **QUIET}
        assert small_spread(bc.fit(own[["size", "first"]].to_numpy(), own["passed"].to_numpy(), **told))


def test_one_stratum_is_singular(rows, fit):
    found = fit.cluster_robust(rows["school"].to_numpy(), strata=np.ones(len(rows)))
    assert found.spread == "cluster-robust by 60 clusters in 1 stratum"


def test_a_fit_updated_without_its_rows_asks_for_them(rows):
    fit = bc.fit("passed ~ region", rows[:600], **QUIET).update(rows[600:], progressbar=False)
    assert fit.coreset.lossless
    with pytest.raises(DataError, match=r"does not have all its rows: .*fit.update\(data=rows\)"):
        fit.cluster_robust("school")
