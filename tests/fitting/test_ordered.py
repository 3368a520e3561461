"""Fits of ordered categories: beside the posterior of categories itself, answers by category, and odd input."""

import copy
import inspect
import pickle

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import optimize, stats
from scipy.special import logsumexp

import bayescore as bc
from bayescore.cli import main
from bayescore.data import batches
from bayescore.fitting import ordered, route
from bayescore.fitting.ordered import _REFUSED, LINKS, OrderedFit, link_of
from bayescore.validation import DataError

mpl.use("Agg")
STOPS = {"logit": stats.logistic, "probit": stats.norm, "cloglog": stats.gumbel_l}
NAMES = ["low", "middle", "high", "top"]
THRESHOLDS = ["threshold[low|middle]", "threshold[middle|high]", "threshold[high|top]"]
QUIET = {"random_state": 1, "progressbar": False}
SHORT = {**QUIET, "family": "sratio", "draws": 250, "tune": 300}
WIDE = bc.priors.Normal(0.0, 10.0)


def made(link, n=3000, *, seed=0):
    """Return rows whose categories are drawn by the model, step by step."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame({"x": rng.normal(size=n), "f": rng.choice(["a", "b"], n), "g": rng.integers(0, 12, n)})
    eta = 0.8 * rows["x"] - 0.5 * (rows["f"] == "b") + rng.normal(0.0, 0.6, 12)[rows["g"]]
    code = np.full(n, 3)
    for k, threshold in reversed(list(enumerate([-1.0, 0.3, 0.0]))):  # thresholds need not rise
        code[rng.random(n) < STOPS[link].cdf(threshold - eta)] = k
    return rows.assign(y=pd.Categorical.from_codes(code, NAMES, ordered=True), n=code + 1)


def mode(rows, code, link):
    """Return mode and sds of thresholds and coefficients by the likelihood of categories, the prior being wide."""
    X, K = np.column_stack([rows["x"], rows["f"] == "b"]), int(code.max()) + 1

    def loss(point):
        t = point[None, : K - 1] - (X @ point[K - 1 :])[:, None]
        stop, go = STOPS[link].logcdf(t), np.cumsum(STOPS[link].logsf(t), axis=1)
        log_p = np.column_stack([stop[:, :1], stop[:, 1:] + go[:, :-1], go[:, -1:]])
        return -log_p[np.arange(len(code)), code].sum()

    found = optimize.minimize(loss, np.zeros(K + 1), method="BFGS")
    at, step = found.x, 1e-3
    moves = step * np.eye(K + 1)
    bend = [[loss(at + a + b) - loss(at + a - b) - loss(at - a + b) + loss(at - a - b) for a in moves] for b in moves]
    return at, np.sqrt(np.diag(np.linalg.inv(np.array(bend) / (4.0 * step**2))))


@pytest.fixture(scope="module")
def rows():
    return made("logit")


@pytest.fixture(scope="module")
def fit(rows):
    return bc.fit("y ~ x + f", rows, family="sratio", **QUIET)


@pytest.mark.parametrize("link", STOPS)
def test_draws_are_of_the_likelihood_of_categories_and_not_of_their_reverse(link):
    rows = made(link, seed=2)
    fit = bc.fit("y ~ x + f", rows, family=f"sratio({link})", prior=WIDE, **QUIET)
    found = fit.summary()
    at, sd = mode(rows, rows["y"].cat.codes.to_numpy(), link)
    assert list(found.index) == [*THRESHOLDS, "x", "f[b]"]
    assert fit.level == "certified"
    assert np.abs((found["mean"] - at) / sd).max() < 0.15  # Monte Carlo error 0.03, that of a mode for a mean 0.1
    assert np.abs(found["sd"] / sd - 1.0).max() < 0.06
    assert np.abs((found["mean"] + at) / sd).max() > 5.0  # of the other sign
    turned, sd = mode(rows, 3 - rows["y"].cat.codes.to_numpy(), link)
    assert np.abs((found["mean"] - turned) / sd).max() > 5.0


def test_cloglog_is_the_cumulative_model():
    """P(y <= k) = 1 - exp(-exp(d_k - eta)) with exp(d_k) = exp(c_1) + ... + exp(c_k), at each draw."""
    rows = made("cloglog", 1500)
    fit = bc.fit("y ~ x + f", rows, **{**SHORT, "family": "sratio(cloglog)"})
    coef = fit.idata.posterior["coef"].stack(sample=("chain", "draw")).transpose("sample", "feature")
    new = pd.DataFrame({"x": [-1.0, 0.0, 2.0], "f": ["a", "b", "b"]})
    d = np.log(np.cumsum(np.exp(coef.sel(feature=THRESHOLDS).values), axis=1))
    eta = coef.sel(feature=["x", "f[b]"]).values @ np.array([new["x"], new["f"] == "b"], dtype=float)
    p = np.cumsum(fit.predict(new, kind="draws").values, axis=2)
    np.testing.assert_allclose(p[..., :3], -np.expm1(-np.exp(d[:, None] - eta[..., None])), atol=1e-12)
    np.testing.assert_allclose(p[..., 3], 1.0)


def test_predictions_are_by_category(fit, rows):
    new = pd.DataFrame({"x": [-2.0, 2.0], "f": ["b", "a"]}, index=[7, 9])
    table = fit.predict(new)
    assert list(table.columns.levels[0]) == ["2.5%", "97.5%", "mean", "sd"]
    assert list(table["mean"].columns) == NAMES
    assert list(table.index) == [7, 9]
    assert table["mean"].idxmax(axis=1).tolist() == ["low", "top"]
    draws = fit.predict(new, kind="draws")
    assert draws.dims == ("sample", "row", "category")
    np.testing.assert_allclose(draws.sum("category"), 1.0)
    np.testing.assert_allclose(draws.mean("sample"), table["mean"])
    replicated = fit.predict(rows[:400], kind="response").values[::20]
    shares = np.array([(replicated == name).mean() for name in NAMES])
    np.testing.assert_allclose(shares, fit.predict(rows[:400])["mean"].mean(), atol=0.01)
    assert fit.predict(new[:0]).shape == (0, 16)


def of_rows(fit, *tables, weights=None):
    """Return mean probabilities of categories over the rows of each table, at all draws, shape (S, K) each."""
    return [np.average(fit.predict(table, kind="draws"), axis=1, weights=weights) for table in tables]


def same(found, wanted, atol=1e-12):
    """Whether averages at draws, with dims chain, draw and category last, are those wanted, shape (S, K)."""
    np.testing.assert_allclose(found.values.reshape(wanted.shape), wanted, atol=atol)


ALL = {"draws": True, "max_draws": 4000}


def test_averages_by_category_are_those_of_predictions_at_draws(fit, rows):
    same(fit.average_predictions(**ALL), of_rows(fit, rows)[0])
    few = rows.head(60)
    on = {"data": few, **ALL}
    whole, a, b, more = of_rows(fit, few, few.assign(f="a"), few.assign(f="b"), few.assign(x=few["x"] + 0.5))
    same(fit.average_predictions(data=few[["x", "f"]], **ALL), whole)
    same(fit.average_predictions(variables="f", **on).sel(f="b"), b)
    same(fit.comparisons("f", **on), b - a)
    same(fit.comparisons("f", comparison="ratio", **on), b / a)
    same(fit.comparisons("f", comparison="odds", **on), b / (1.0 - b) / (a / (1.0 - a)))
    same(fit.comparisons("x", step=0.5, **on), more - whole)
    ends = of_rows(fit, few.assign(x=few["x"] + 1e-4), few.assign(x=few["x"] - 1e-4))
    same(fit.slopes("x", **on), (ends[0] - ends[1]) / 2e-4, atol=1e-7)
    assert not np.allclose(fit.slopes("x", **on).values.reshape(whole.shape), more - whole, atol=1e-3)
    (part,) = of_rows(fit, few[few["g"] == 3])  # of a column that the model does not have
    same(fit.average_predictions(by="g", **on).unstack("part").sel(g=3, category=NAMES), part)
    table = fit.comparisons("f", by="g", data=few)
    assert list(table.columns[:4]) == ["contrast", "g", "category", "mean"]
    assert len(table) == few["g"].nunique() * len(NAMES)
    assert table.groupby("g")["mean"].sum().abs().max() < 1e-12


def test_slopes_go_through_coefficients_of_each_threshold(rows, tmp_path):
    fit = bc.fit("y ~ x + f + x:step", rows[:500], **SHORT)
    few = rows.head(40)
    ends = of_rows(fit, few.assign(x=few["x"] + 1e-4), few.assign(x=few["x"] - 1e-4))
    few.to_parquet(tmp_path / "few.parquet")
    for data in (few, tmp_path / "few.parquet"):
        same(fit.slopes("x", data=data, **ALL), (ends[0] - ends[1]) / 2e-4, atol=1e-7)


def test_averages_take_weights_groups_and_files(rows, tmp_path, monkeypatch):
    rows = rows[:700].assign(w=1.0 + rows["n"])
    rows.to_parquet(tmp_path / "rows.parquet")
    fit = bc.fit("y ~ x + (1 | g)", tmp_path / "rows.parquet", weights="w", **SHORT)
    (whole,) = of_rows(fit, rows, weights=rows["w"])
    again = pd.concat([rows, rows.iloc[:50]])
    for held, of in ((fit, rows), (fit.update(rows.iloc[:50]), again)):
        weight = of["w"].groupby(of["y"], observed=True).sum()
        np.testing.assert_allclose(held.ordered.shares, weight / weight.sum())
        assert not np.allclose(held.ordered.shares, of["y"].value_counts(sort=False, normalize=True), rtol=1e-3)
    same(fit.average_predictions(**ALL), whole)
    cells = rows.assign(size=np.arange(700))
    (shares,) = of_rows(fit, cells, weights=cells["size"])
    same(fit.poststratify(cells, weights="size", **ALL), shares)
    table = fit.poststratify(cells, by="g", weights="size")
    assert table.index.names == ["g", "category"]
    np.testing.assert_allclose(table.groupby("g")["mean"].sum(), 1.0)
    assert table.groupby("g")["weight"].first().sum() == cells["size"].sum()
    for asked, said in (
        (lambda: fit.average_predictions(data=rows.assign(g=99)), "a group that the fit does not know"),
        (lambda: fit.slopes("step"), "no column of the rows: name another"),
        (lambda: fit.average_predictions(by="category"), "rename it"),
        (lambda: fit.comparisons("continued"), "'continued' is no column of the rows; the columns are x$"),
        (lambda: fit.check(by="no"), "'no' is no column of the rows; the columns are x, f, g, y, n, w$"),
        (lambda: fit.cluster_robust("no"), "'no' is no column of the rows; the columns are x, f, g, y, n, w$"),
        (lambda: fit.average_predictions(by="no"), "'no' is no column of the rows; the columns are .*"),
        (lambda: fit.average_predictions(data=rows[["g"]]), "'x' is no column of the rows; the columns are g$"),
        (lambda: fit.poststratify(cells, weights="no"), "cells has no column 'no'"),
        (lambda: fit.poststratify([1], weights="no"), "give a data frame"),
        (lambda: fit.poststratify(cells.assign(size=0), weights="size"), "are all 0"),
    ):
        with pytest.raises(DataError, match=said):
            asked()
    monkeypatch.setattr(ordered, "MAX_EVALUATED", 4e6)
    assert len(fit.average_predictions()) == len(NAMES)
    with pytest.raises(DataError, match=r"probabilities of steps .*give a smaller max_draws"):
        fit.comparisons("x")


def test_rows_to_predict_may_have_a_column_called_as_that_of_the_steps(fit, rows):
    new = rows[:9].assign(step="low", threshold=1, continued=True)
    pd.testing.assert_frame_equal(fit.predict(new), fit.predict(rows[:9]))


def test_what_cannot_be_predicted_is_said_of_the_rows_given(fit, rows):
    """As of any fit: numbers and positions are those of rows, not of the steps that they become."""
    new = rows[:9].assign(o=0.1, h=rows["g"][:9] % 3)
    for x, match in ((np.inf, "'x' is inf in row 5"), (np.nan, "'x' is nan in row 5")):
        with pytest.raises(DataError, match=match):
            fit.predict(new.assign(x=new["x"].where(np.arange(9) != 5, x)))
    with pytest.raises(DataError, match=r"'rows\.parquet' is text: read the rows of a file into a data frame"):
        fit.predict("rows.parquet")
    grouped = bc.fit("y ~ x + offset(o) + (1 | g)", rows[:600].assign(o=0.1), **SHORT)
    pd.testing.assert_frame_equal(grouped.predict(new, offset=np.full(9, 0.1)), grouped.predict(new))
    pd.testing.assert_frame_equal(grouped.predict(new, groups={"g": new["g"].tolist()}), grouped.predict(new))
    for offset in (0.1, np.zeros(3), np.zeros(27), np.zeros((9, 1))):
        with pytest.raises(DataError, match=r"offset has shape \(.*\); it must be \(9,\), one offset for each row"):
            grouped.predict(new, offset=offset)
    with pytest.raises(DataError, match="offset is nan in row 4"):
        grouped.predict(new, offset=np.where(np.arange(9) == 4, np.nan, 0.0))
    for groups in (np.zeros(3, int), np.zeros(27, int), {"g": [1, 2]}):
        with pytest.raises(DataError, match=r"groups has \d+ entries and X 9 rows"):
            grouped.predict(new, groups=groups)
    for groups in (1, new[["g", "h"]]):
        with pytest.raises(DataError, match=r"groups has shape \(.*\); it must be \(9,\), a level for each row"):
            grouped.predict(new, groups=groups)


def test_what_cannot_be_fitted_names_the_row_given(fit, rows):
    rows = rows[:300].assign(x=rows["x"].where(rows.index != 40, np.inf), w=1.0)
    with pytest.raises(DataError, match=r"column 'x' is inf in row \d+; .*this one is of row 40 of the data"):
        bc.fit("y ~ x", rows, **SHORT)
    with pytest.raises(DataError, match=r"column 'x' is inf in row \d+; .*this one is of row 40 of the data"):
        fit.update(rows, progressbar=False)
    holes = rows.assign(f=rows["f"].where(rows.index > 9))
    with (
        pytest.warns(UserWarning, match="10 of 300 rows miss something"),
        pytest.raises(DataError, match=r"this one is of row 40 of the data"),
    ):
        bc.fit("y ~ x + f", holes, missing="drop", **SHORT)
    with pytest.raises(DataError, match=r"weights \(column 'w'\) is -1 in row 7"):
        bc.fit("y ~ f", rows.assign(w=rows["w"].where(rows.index != 7, -1.0)), weights="w", **SHORT)


def test_an_interrupted_fit_is_one_of_categories(rows, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(route.Given, "certify", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bc.fit("y ~ x", rows[:600], **SHORT)
    with pytest.warns(UserWarning, match="interrupted before the draws were checked"):
        left = bc.last_fit()
    assert isinstance(left, OrderedFit)
    assert left.predict(rows[:2])["mean"].shape == (2, 4)


def test_a_fit_can_be_copied(fit, rows):
    for other in (copy.deepcopy(fit), pickle.loads(pickle.dumps(fit))):
        pd.testing.assert_frame_equal(other.summary(), fit.summary())
        pd.testing.assert_frame_equal(other.check(), fit.check())


def test_loo_leaves_whole_rows_out(fit, rows):
    p = fit.predict(rows[:300], kind="draws").values[::8]
    log_p = np.log(np.take_along_axis(p, rows["y"].cat.codes.to_numpy()[None, :300, None], axis=2)[..., 0])
    found = fit.loo()
    values = np.asarray(found["elpd_i" if "elpd_i" in dir(found) else "loo_i"])
    assert len(values) == len(rows)
    np.testing.assert_allclose(values[:300], np.log(len(p)) - logsumexp(-log_p, axis=0), atol=0.02)
    assert np.isnan(fit.certificate.elpd_loo)  # which would be that of single steps
    with pytest.raises(DataError, match=r"arviz.compare"):
        bc.loo_compare({"a": fit, "b": fit})


def test_what_it_prints_counts_rows(fit, rows, tmp_path):
    text = repr(fit)
    assert text.startswith("Bayesian stopping-ratio (logit) regression")
    assert "3,000 observations" in text
    assert "y ~ x + f" in text
    assert f"y = low: {100 * (rows['y'] == 'low').mean():.1f}%" in text
    assert "threshold[low|middle]" in fit.table()
    assert "Observations" in fit.table()
    assert fit.table().count("3,000") == 1
    assert [str(each.get_text()) for each in fit.plot().get_yticklabels()] == ["x", "f[b]"]
    fit.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "threshold[low|middle]" in page
    assert "family=&#39;sratio(logit)&#39;" in page
    assert list(fit.prior_summary().index[-2:]) == ["step[middle|high]", "step[high|top]"]
    odds = fit.summary(scale="odds")
    assert list(odds.index) == ["x", "f[b]"]


def test_a_saved_fit_is_the_same_and_takes_more_rows(rows, tmp_path):
    rows = rows[:900]
    first = bc.fit("y ~ x + f", rows[:600], **SHORT)
    first.save(tmp_path / "model")
    read = bc.read_fit(tmp_path / "model", rows[:600], progressbar=False)
    pd.testing.assert_frame_equal(pd.DataFrame(read.summary()), pd.DataFrame(first.summary()))
    assert repr(read) == repr(first)
    np.testing.assert_allclose(np.asarray(read.loo().pareto_k), np.asarray(first.loo().pareto_k))
    bare = bc.read_fit(tmp_path / "model")
    with pytest.raises(DataError, match="does not have all its rows"):
        bare.loo()
    assert "fit.check()" in str(read)
    assert "fit.check()" not in str(bare)
    every = bc.fit("y ~ x + f", rows, **SHORT)
    for given in (rows[600:], rows[600:].assign(y=rows["y"].astype(str))):
        more = first.update(given, data=rows, progressbar=False)
        assert isinstance(more, OrderedFit)
        assert sum(more.ordered.counts) == 900
        assert np.abs((more.summary()["mean"] - every.summary()["mean"]) / every.summary()["sd"]).max() < 0.25
    with pytest.raises(DataError, match=r"new has the category 'best', which the fit does not know"):
        first.update(rows[:9].assign(y="best"), progressbar=False)
    few = rows[600:].assign(w=(rows["y"] != "low") * 1.0)
    weighted = bc.fit("y ~ x", rows[:600].assign(w=1.0), weights="w", **SHORT)
    more = weighted.update(few, progressbar=False)  # which has "low" in rows of weight 0 alone
    assert more.ordered.counts[0] == weighted.ordered.counts[0]
    assert sum(more.ordered.counts) == 600 + few["w"].sum()
    with pytest.raises(DataError, match=r"new has the category 'best', which the fit does not know"):
        weighted.update(few[:9].assign(y="best", w=0.0), progressbar=False)
    tight = first.with_prior({"x": bc.priors.Normal(0.0, 0.01)})
    assert tight.summary()["mean"]["x"] < 0.2
    assert isinstance(tight, OrderedFit)


def test_groups_and_new_groups():
    rows = made("cloglog", 1500)
    fit = bc.fit("y ~ x + (1 | g)", rows, **{**SHORT, "family": "sratio(cloglog)"})
    low, high = fit.summary().loc["sigma_g", ["2.5%", "97.5%"]]
    assert low < 0.6 < high
    means = rows.groupby("g")["n"].mean()
    assert np.corrcoef(means, fit.effects("g")["mean"])[0, 1] > 0.9  # of the same sign
    new = pd.DataFrame({"x": 0.0, "g": [0, 99, 99]})
    p = fit.predict(new, kind="draws", random_state=3)
    np.testing.assert_allclose(p[:, 1], p[:, 2], rtol=1e-12)
    assert p[:, 1].std("sample").sum() > 1.5 * p[:, 0].std("sample").sum()
    given = fit.predict(new[["x"]], kind="draws", groups=new["g"], random_state=3)
    np.testing.assert_allclose(p, given, rtol=1e-12)
    with pytest.raises(DataError, match="new_groups='average'"):
        fit.predict(new, new_groups="average")


def test_sources_and_kinds_of_response_give_one_answer(rows, tmp_path):
    rows = rows[:900]
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=250)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    enum = pl.DataFrame(rows[["x", "f"]].assign(y=rows["y"].astype(str))).with_columns(pl.col("y").cast(pl.Enum(NAMES)))
    given = {
        "frame": ("y ~ x + f", rows),
        "polars": ("y ~ x + f", enum),
        "parquet": ("y ~ x + f", tmp_path / "rows.parquet"),
        "csv": ("n ~ x + f", tmp_path / "rows.csv"),
        "numbers": ("n ~ x + f", rows.assign(n=rows["n"] * 1.0)),
        "dot": ("y ~ .", rows[["x", "f", "y"]]),
        "X, y": (rows[["x", "f"]], rows["y"]),
    }
    found = {name: bc.fit(*each, **SHORT).summary()["mean"].to_numpy() for name, each in given.items()}
    for name, each in found.items():
        np.testing.assert_allclose(each, found["frame"], rtol=1e-6, err_msg=name)
    of_array = bc.fit(rows[["x"]].to_numpy(), rows["n"].to_numpy(), **SHORT)
    assert list(of_array.summary().index) == ["threshold[1|2]", "threshold[2|3]", "threshold[3|4]", "x0"]
    assert of_array.predict(np.zeros((2, 1)))["mean"].shape == (2, 4)


def test_files_are_those_that_other_families_read(rows, tmp_path, monkeypatch):
    """A folder with other files beside its parts, names of folders as columns, patterns; what fails is named."""
    rows, folder = rows[:600].assign(c=rows["x"].round()), tmp_path / "rows"
    expected = bc.fit("n ~ x + f", rows, **SHORT).summary()["mean"].to_numpy()
    for name, part in rows.groupby("f", sort=True):
        (folder / f"f={name}").mkdir(parents=True)
        part.drop(columns="f").to_parquet(folder / f"f={name}" / "part.parquet")
    (folder / "README.md").write_text("rows by f")
    rows.to_csv(tmp_path / "whole.csv", index=False)
    rows[:300].astype({"c": int}).to_csv(tmp_path / "part-1.csv", index=False)
    rows[300:].to_csv(tmp_path / "part-2.csv", index=False)  # where c is 1.0, 2.0, ...
    for given in (folder, str(folder / "*" / "*.parquet"), str(tmp_path / "part-*.csv")):
        by_pattern = "*.parquet" in str(given)  # which gives no columns
        found = bc.fit("n ~ x" if by_pattern else "n ~ x + f", given, **SHORT)
        assert sum(found.ordered.counts) == 600
        if not by_pattern:
            np.testing.assert_allclose(found.summary()["mean"], expected, atol=0.02)
        pickle.loads(pickle.dumps(found)).check()
    assert "c" in bc.fit("n ~ c", str(tmp_path / "part-*.csv"), **SHORT).summary().index
    monkeypatch.setattr(batches, "_BLOCK_BYTES", 1 << 12)
    with (tmp_path / "part-2.csv").open("a") as file:
        file.write("?,b,1,low,2,1.0\n")
    (folder / "f=b" / "part.parquet").write_text("none")
    for family, label in (("sratio", "n"), ("poisson", "n")):
        for given, match in (
            (str(tmp_path / "part-*.csv"), "part-2.csv' is not read as CSV"),
            (folder, "part.parquet' is"),
        ):
            with pytest.raises(DataError, match=match):
                bc.fit(f"{label} ~ x", given, **{**SHORT, "family": family})
    with pytest.raises(FileNotFoundError, match="no file is named as"):
        bc.fit("n ~ x", str(tmp_path / "none-*.parquet"), **SHORT)


def test_weights_offsets_and_missing_entries(rows):
    rows = rows[:600].reset_index(drop=True)
    counted = rows.assign(w=np.arange(600) % 3 * 1.0, o=0.5 * rows["x"])
    weighted = bc.fit("y ~ f", counted, weights="w", **SHORT)
    repeated = bc.fit("y ~ f", counted.loc[counted.index.repeat(counted["w"].astype(int))], **SHORT)
    gap = (weighted.summary()["mean"] - repeated.summary()["mean"]) / repeated.summary()["sd"]
    assert np.abs(gap).max() < 0.2
    assert "400 observations" in repr(weighted)
    assert "400 rows count as 600" in repr(weighted)
    shifted, whole = bc.fit("y ~ x + offset(o)", counted, **SHORT), bc.fit("y ~ x", counted, **SHORT)
    assert shifted.summary()["mean"]["x"] == pytest.approx(whole.summary()["mean"]["x"] - 0.5, abs=0.03)
    holes = rows.assign(x=rows["x"].where(rows.index > 9), y=rows["y"].where(rows.index != 20))
    with pytest.raises(DataError, match=r"11 of 600 rows miss something \('y' in 1, 'x' in 10\)"):
        bc.fit("y ~ x", holes, **SHORT)
    with pytest.warns(UserWarning, match=r"11 of 600 rows miss something .* left them out"):
        dropped = bc.fit("y ~ x", holes, missing="drop", **SHORT)
    complete = bc.fit("y ~ x", holes.dropna(), **SHORT)
    np.testing.assert_allclose(dropped.summary()["mean"], complete.summary()["mean"])


def test_terms_that_learn_from_the_rows_count_each_row_once(rows):
    """Rows of high categories are several steps, and would weigh more in a mean."""
    made = rows.assign(z=(rows["x"] - rows["x"].mean()) / rows["x"].std(ddof=0))
    scaled, by_hand = bc.fit("y ~ scale(x)", rows, **SHORT), bc.fit("y ~ z", made, **SHORT)
    np.testing.assert_allclose(scaled.summary()["mean"], by_hand.summary()["mean"], rtol=1e-3, atol=1e-3)


def test_a_term_of_the_steps_alone_is_refused(rows):
    with pytest.raises(DataError, match=r"C\(step\).*each threshold has a coefficient anyway"):
        bc.fit("y ~ x + C(step)", rows, **SHORT)


def test_thresholds_may_have_slopes_of_their_own(rows):
    """Category-specific effects: a term with the column of thresholds."""
    fit = bc.fit("y ~ x + x:step", rows, **SHORT)
    assert list(fit.summary().index)[:4] == [*THRESHOLDS, "x"]
    assert fit.summary().loc["x:step[middle|high]", "2.5%"] < 0.0 < fit.summary().loc["x:step[middle|high]", "97.5%"]


def test_categories_that_no_row_has_are_left_out(rows):
    few = rows[rows["y"] != "middle"]
    with pytest.warns(UserWarning, match=r"no row has are left out, and have no threshold: 'middle'"):
        fit = bc.fit("y ~ x", few, **SHORT)
    assert fit.categories == ("low", "high", "top")
    assert fit.summary().index[0] == "threshold[low|high]"


def test_many_categories():
    rng = np.random.default_rng(3)
    fit = bc.fit("n ~ x", pd.DataFrame({"x": rng.normal(size=600), "n": rng.integers(0, 11, 600)}), **SHORT)
    assert len(fit.categories) == 11
    assert fit.level != "not certified"


@pytest.mark.parametrize(
    ("change", "asked", "match"),
    [
        ({"y": "low"}, {}, r"has no order.*pd.Categorical\(rows\['y'\], categories=\[...\], ordered=True\)"),
        ({"y": 1}, {}, "has one category"),
        ({"y": lambda rows: rows["n"] > 1}, {}, "has two categories, False, True: give family='logistic'"),
        ({"y": lambda rows: rows["n"] / 2.0}, {}, "not whole, as 0.5"),
        ({"y": lambda rows: rows["n"].where(rows.index > 0, np.inf)}, {}, "not whole, as inf"),
        ({"y": lambda rows: np.arange(len(rows))}, {}, "has 60 categories"),
        ({"w": 0.0}, {"weights": "w"}, "in rows of weight 0 alone"),
        ({"step": 1.0}, {}, "has a column 'step'"),
        ({}, {"weights": np.ones(60)}, "weights of family='sratio' must be the name of a column"),
        ({}, {"trials": "n"}, "trials does not go with"),
        ({}, {"positive": "top"}, "positive does not go with"),
        ({}, {"formula": "y ~ 0 + x"}, "no intercept"),
        ({}, {"formula": "log(n) ~ x"}, r"'log\(n\)' is no column"),
        ({}, {"formula": "z ~ x"}, "'z' is no column"),
        ({}, {"formula": "~ x"}, "the response is missing"),
        ({}, {"formula": "y ~ zz"}, "'zz' is no column of the rows; the columns are x, "),
        ({}, {"weights": "zz"}, "'zz' is no column of the rows"),
        ({}, {"cluster": "zz"}, r"'zz' is no column of the rows; the columns are (?!.*(step|continued))"),
        ({}, {"family": "logistic"}, "has 4 classes.*family='sratio'"),
        ({}, {"prior": {"zz": WIDE}}, "'zz' is no coefficient"),
    ],
)
def test_what_cannot_be_fitted_is_said(change, asked, match, rows):
    given = {**SHORT, **asked}
    formula = given.pop("formula", "y ~ x")
    with pytest.raises((DataError, ValueError), match=match):
        bc.fit(formula, rows[:60].assign(**change), **given)


@pytest.mark.parametrize(
    ("family", "match"),
    [
        ("cumulative", r"is not fitted: give family='sratio'"),
        ("cumulative(cloglog)", r"is family='sratio\(cloglog\)', with the same coefficients"),
        ("sratio(cauchit)", "of the link logit"),
        ("sratio(", "of the link logit"),
    ],
)
def test_links_that_are_not_there(family, match):
    with pytest.raises(ValueError, match=match):
        link_of(family)
    assert link_of("SRatio(link='probit')") == "probit"
    assert set(LINKS) == set(STOPS)


def test_only_fit_takes_them(rows):
    with pytest.raises(DataError, match=r"which bayescore.fit takes and nothing else does"):
        bc.build_coreset(rows, formula="y ~ x", family="sratio")


def test_every_verb_is_answered_or_refused(fit):
    """A verb that `Fit` gets later must be written, refused or named here."""
    verbs = {name for name, each in inspect.getmembers(bc.Fit, callable) if not name.startswith("_")}
    same = {"table", "effects", "plot_effects", "prior_summary", "save", "report", "from_draws"}
    same |= {"average_predictions", "comparisons", "slopes", "poststratify"}  # by `_average` and `_poststratified`
    assert verbs - set(vars(OrderedFit)) == same
    for name in _REFUSED:
        with pytest.raises(DataError, match=rf"{name} is not there for ordered categories \(sratio\(logit\)\)"):
            getattr(fit, name)("x")
    for refused in (lambda: fit.plot("x"), lambda: fit.summary(scale="response"), lambda: fit.predict({}, exposure=1)):
        with pytest.raises(DataError):
            refused()
    probit = bc.fit("y ~ x", made("probit", 300), **{**SHORT, "family": "sratio(probit)"})
    for refused in (probit.summary, probit.table):
        with pytest.raises(DataError, match=r"'sratio\(probit\)', .* no log odds ratios; see predict"):
            refused(scale="ratio")
    assert fit.check(by="step")["outside"].sum() == 0
    assert fit.steps.summary().index[0] == "Intercept"


def test_the_command_line_takes_them(rows, tmp_path):
    rows[:400].to_parquet(tmp_path / "rows.parquet")
    model, out = str(tmp_path / "model"), str(tmp_path / "out.csv")
    arguments = [str(tmp_path / "rows.parquet"), "y ~ x", "--family", "sratio", "--draws", "250", "--quiet"]
    assert main(["fit", *arguments, "-o", model]) == 0
    assert main(["predict", model, str(tmp_path / "rows.parquet"), "-o", out, "--quiet"]) == 0
    assert main(["summary", model, "--quiet"]) == 0
    written = pd.read_csv(out)
    np.testing.assert_allclose(written[[f"mean {name}" for name in NAMES]].sum(axis=1), 1.0, atol=1e-9)
