"""`fit`: the route from rows to certified draws, its story, and what it refuses before work starts."""

import re
import time
import warnings
from dataclasses import replace

import numba
import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.diagnostics.results import Level, Need, Remedy
from bayescore.families.family import check_family
from bayescore.fitting import route as routes
from bayescore.fitting.pictures import fit_call
from bayescore.fitting.route import FitOptions, collected_warnings
from tests.fitting.printed import one_line


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    n = 6000
    frame = pd.DataFrame({"age": rng.normal(45, 12, n), "device": rng.choice(["phone", "tablet"], n)})
    frame["county"] = rng.choice([f"c{i:02d}" for i in range(20)], n)
    frame["w"] = rng.uniform(0.5, 2.0, n)
    effect = dict(zip(sorted(frame["county"].unique()), rng.normal(0, 0.5, 20), strict=True))
    eta = 0.04 * (frame["age"] - 45) + (frame["device"] == "tablet") + frame["county"].map(effect)
    frame["clicked"] = np.where(eta + rng.logistic(size=n) > 0, "yes", "no")
    return frame


@pytest.fixture(scope="module")
def flat(rows):
    return bc.fit("clicked ~ age + device", rows, random_state=1, progressbar=False)


def test_the_default_route_is_a_coreset_whose_draws_are_certified(flat, rows):
    assert flat.level == "certified"
    assert [step.what for step in flat.story] == ["build", "sample", "certify"]
    assert flat.story[0].rows == len(rows) > 10 * len(flat.coreset)
    assert sum(step.passes for step in flat.story) > 3
    mode = bc.find_map(
        bc.all_rows(rows, formula="clicked ~ age + device", standardize=True, progressbar=False),
        prior=bc.priors.Normal(0, 2.5),
    )
    raw = flat.coreset.design.raw_coefficients(mode.beta)
    table = flat.summary()
    assert (np.abs(table["mean"] - raw) < 0.2 * table["sd"]).all()


def test_the_level_stands_first(flat):
    assert repr(flat).splitlines()[0].endswith(" CERTIFIED")
    assert flat.summary().attrs["level"] == "certified"
    assert "CERTIFIED</strong>" in flat._repr_html_()


def test_few_distinct_rows_are_exact():
    X = np.random.default_rng(0).integers(0, 3, size=(5000, 2)).astype(float)
    y = X[:, 0] + np.random.default_rng(1).logistic(size=5000) > 1
    fit = bc.fit(X, y, random_state=1, progressbar=False)
    assert fit.level == "certified"
    assert len(fit.coreset) == 18
    assert "exact" in fit.story[0].why


def test_one_seed_gives_one_fit(flat, rows):
    again = bc.fit("clicked ~ age + device", rows, random_state=1, progressbar=False)
    assert np.array_equal(again.idata.posterior["coef"], flat.idata.posterior["coef"])
    other = bc.fit("clicked ~ age + device", rows, random_state=2, progressbar=False)
    assert not np.array_equal(other.idata.posterior["coef"], flat.idata.posterior["coef"])


def test_roles_are_remembered(rows, tmp_path):
    rows.to_parquet(tmp_path / "rows.parquet")
    known = {"weights": "w", "positive": "no", "random_state": 1, "progressbar": False}
    of_file = bc.fit("clicked ~ age + (1 | county)", tmp_path / "rows.parquet", **known)
    of_frame = bc.fit("clicked ~ age + (1 | county)", rows, **known)
    assert of_file.level in ("certified", "corrected")
    assert of_file.coreset.classes == ("yes", "no")
    assert of_file.coreset.weight_total == pytest.approx(rows["w"].sum())
    assert np.allclose(of_file.summary()["mean"], of_frame.summary()["mean"])


def test_rows_that_come_once_are_never_certified(rows):
    X, y = rows[["age"]].to_numpy(), (rows["clicked"] == "yes").to_numpy()
    with pytest.warns(UserWarning, match="not certified: The rows came once"):
        fit = bc.fit(iter([(X[:3000], y[:3000]), (X[3000:], y[3000:])]), random_state=1, progressbar=False)
    assert fit.level == "not certified"
    assert repr(fit).splitlines()[0].endswith("NOT CERTIFIED: not checked")
    assert "The rows came once" in one_line(fit)
    assert len(fit.summary()) == 2


def streamed(rows, formula, **options):
    stream = bc.stream(formula=formula, random_state=1, **options)
    for start in range(0, len(rows), 1500):
        stream.partial_fit(rows[start : start + 1500])
    return stream


def test_a_coreset_of_a_stream_is_fitted_and_certified_once_the_rows_are_there(rows, flat, tmp_path):
    core = streamed(rows, "clicked ~ age + device", size=150).coreset()
    own = re.escape(f"By its own estimate means are off by about {core.params['mean_error']:.2g} sd")
    with pytest.warns(UserWarning, match=f"not certified: The rows are a coreset of the method 'merge_reduce'.*{own}"):
        fit = bc.fit(core, random_state=1, progressbar=False)
    assert fit.coreset is core
    assert repr(fit).splitlines()[0].endswith("NOT CERTIFIED: not checked")
    assert "The rows are a coreset" in one_line(fit)
    assert fit.predict(rows[:2]).attrs["level"] == "not certified"
    table, other = fit.summary(), flat.summary()
    assert (np.abs(table["mean"] - other["mean"]) < 0.25 * other["sd"]).all()
    X = core.design.transform(rows)[:, 1:]
    wide = 2.5 * np.sqrt(1.0 + ((X.mean(axis=0) / X.std(axis=0)) ** 2).sum())
    given = float(re.search(r"sigma=([\d.]+)", fit.prior_summary()["prior"]["Intercept"])[1])
    assert given == pytest.approx(wide, rel=0.1)
    sd = rows["age"].std(ddof=0)
    given = float(re.search(r"sigma=([\d.]+)", fit.prior_summary()["prior"]["age"])[1])
    assert given == pytest.approx(2.5 / sd, rel=0.1)
    for asked in (fit.loo, fit.average_predictions, lambda: fit.cluster_robust("county"), lambda: fit.with_prior(None)):
        with pytest.raises(bc.validation.DataError, match=r"made of a coreset.*fit.update\(data=rows\)"):
            asked()
    assert fit.update(data=rows, progressbar=False).level == "certified"
    fit.save(tmp_path / "model")
    assert bc.read_fit(tmp_path / "model").level == "not certified"
    lossless = bc.all_rows(rows, formula="clicked ~ age + device", progressbar=False)  # the control
    assert bc.fit(lossless, random_state=1, progressbar=False).level == "certified"


def test_a_column_that_is_constant_up_to_rounding_has_no_sd(rows):
    X, y = np.column_stack([np.full(len(rows), 0.1), rows["age"]]), rows["clicked"] == "yes"
    core = bc.build_coreset(X, y, method="leverage", size=500, random_state=1, progressbar=False)
    with pytest.warns(UserWarning, match="not certified"):
        told = bc.fit(core, random_state=1, progressbar=False).prior_summary()["prior"]
    assert told["x0"] == "Normal(mu=0, sigma=2.5)"


def test_pseudo_rows_need_a_prior(rows):
    stream = streamed(rows, "clicked ~ age + (1 | county)")
    core, normal = stream.coreset(), bc.priors.Normal(0, 2.5)
    for prior in (None, {"age": normal}):
        with pytest.raises(ValueError, match=r"prior is missing: .*pseudo-rows do not tell"):
            bc.fit(core, prior=prior, progressbar=False)
    with pytest.warns(UserWarning, match="not certified: .*no estimate of its error"):
        fit = bc.fit(core, prior={"age": normal, "*": normal}, random_state=1, progressbar=False)
    assert len(fit.effects("county")) == 20
    assert fit.update(data=rows, progressbar=False).level in ("certified", "corrected")
    for options, message in (
        ({"weights": "w"}, "weights is given, but data is a coreset"),
        ({"family": "probit"}, "family='probit' is given, and the coreset was built for 'logistic'"),
        ({"prior": {"height": normal, "*": normal}}, "'height' is no coefficient"),
        ({"cluster": "county"}, "data is a Coreset, which has no clusters"),
    ):
        with pytest.raises(ValueError, match=message):
            bc.fit(core, **{"prior": normal, **options}, progressbar=False)
    with pytest.raises(TypeError, match=r"give the coreset of its rows so far, fit\(stream.coreset\(\)\)"):
        bc.fit(stream)


def test_separated_rows_are_certified_under_the_default_prior():
    X = np.random.default_rng(0).normal(size=(500, 2))
    with pytest.warns(UserWarning, match="completely separated") as said:
        fit = bc.fit(X, X[:, 0] > 0, random_state=1, progressbar=False)
    assert fit.level in ("certified", "corrected")
    assert sum("completely separated" in str(each.message) for each in said) == 1  # not once more by the certificate


def refusing(monkeypatch, remedies):
    """Make the certificate refuse in turn for these reasons; return the arguments of each `sample`."""
    left, asked = list(remedies), []
    certified, sampled = routes.Given.certify, routes.sample_as_tree

    def certify(given, idata, core, max_draws):
        found = certified(given, idata, core, max_draws)
        return replace(found, level=Level.NOT_CERTIFIED, remedy=left.pop(0), idata=None) if left else found

    def sample(core, **options):
        asked.append({"rows": len(core), **options})
        return sampled(core, **options)

    monkeypatch.setattr(routes.Given, "certify", certify)
    monkeypatch.setattr(routes, "sample_as_tree", sample)
    return asked


def test_the_reason_of_a_refusal_decides(monkeypatch, rows):
    asked = refusing(monkeypatch, [Remedy(Need.DRAWS, draws=1500), Remedy(Need.CHAINS, draws=3000, tune=2000)])
    fit = bc.fit("clicked ~ age", rows, random_state=1, progressbar=False)
    assert [(own["draws"], own["tune"]) for own in asked] == [(1000, 1000), (1500, 1000), (3000, 2000)]
    assert len({own["rows"] for own in asked}) == 1
    assert fit.idata.posterior.sizes["draw"] == 3000
    assert len({own["random_seed"] for own in asked}) == 3


def test_a_coreset_too_small_is_doubled_and_then_all_rows_are_taken(monkeypatch, rows):
    asked = refusing(monkeypatch, [Remedy(Need.ROWS)] * 2)
    fit = bc.fit("clicked ~ age", rows, random_state=1, progressbar=False)
    sizes = [own["rows"] for own in asked]
    assert sizes[1] == pytest.approx(2 * sizes[0], rel=0.1)
    assert sizes[2] == len(rows)
    assert fit.coreset.method == "full"
    assert fit.level == "certified"


def test_what_takes_too_long_is_not_tried(monkeypatch, rows):
    refusing(monkeypatch, [Remedy(Need.DRAWS, draws=20_000)])
    with pytest.warns(UserWarning, match="not certified"):
        fit = bc.fit("clicked ~ age", rows, max_seconds=0.001, random_state=1, progressbar=False)
    assert fit.level == "not certified"
    assert fit.story[-1].what == "stop"
    assert "more than max_seconds=0.001" in fit.story[-1].why
    assert repr(fit).splitlines()[0].endswith("NOT CERTIFIED: do not use")
    assert "Needed: more draws (draws=" in one_line(fit)


BAD = {
    "an absent column": (("clicked ~ age + height",), {}, "height"),
    "no formula": ((), {}, "data"),
    "a text for a prior": (("clicked ~ age",), {"prior": "flat"}, "prior='flat'.*Normal"),
    "a text for one prior": (("clicked ~ age",), {"prior": {"age": 2.5}}, r"prior\['age'\]"),
    "a prior of no coefficient": (("clicked ~ age",), {"prior": {"height": bc.priors.Normal()}}, "'height'"),
    "an unknown family": (("clicked ~ age",), {"family": "tweedie"}, "tweedie"),
    "a group term alone": (("clicked ~ 0 + (1 | county)",), {}, "formula"),
    "negative weights": (("clicked ~ age",), {"weights": "minus"}, "minus"),
    "weights of 0": (("clicked ~ age",), {"weights": "zero"}, "weights"),
    "trials below successes": (("age ~ w",), {"trials": "zero"}, "trials"),
    "three labels": (("county ~ age",), {}, "classes"),
    "one label": (("zero ~ age",), {}, "one class"),
    "max_seconds": (("clicked ~ age",), {"max_seconds": 0}, "max_seconds"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_before_work_starts(rows, case, monkeypatch):
    (formula,), options, message = BAD[case][0] or ("clicked ~ age",), BAD[case][1], BAD[case][2]
    monkeypatch.setattr(routes, "sample_as_tree", lambda *_, **__: pytest.fail("work started"))
    frame = rows.assign(minus=-1.0, zero=0.0)
    with pytest.raises((ValueError, TypeError), match=message):
        bc.fit(*((frame, None) if case == "no formula" else (formula, frame)), **options, progressbar=False)


def test_a_formula_may_be_longer_than_the_name_of_a_file():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(300, 40)), columns=[f"column_{k}" for k in range(40)])
    formula = f"y ~ {' + '.join(frame.columns)}"
    found = bc.fit(formula, frame.assign(y=rng.random(300) < 0.5), draws=100, random_state=1, progressbar=False)
    assert len(formula) > 255
    assert found.coreset.design.formula.count("column_") == 40
    with pytest.raises(FileNotFoundError, match="no file or folder 'rowsrows"):
        bc.fit("y ~ x", "rows" * 99)


def test_the_order_of_arguments_is_explained(rows):
    with pytest.raises(TypeError, match="comes first"):
        bc.fit(rows, "clicked ~ age")
    with pytest.raises(TypeError, match="data is missing"):
        bc.fit("clicked ~ age")


@pytest.mark.slow
def test_what_is_expected_of_a_step_leaves_out_compiling(rows):
    """The first run of a process compiled for seconds, and 3,000 rows more seemed to take an hour."""
    route = routes.Route(routes.Given(rows, None, "clicked ~ age"), None, None, 0, 600.0)

    def work():
        @numba.njit
        def slow(x):
            return np.sort(x)

        return slow(np.arange(3.0))

    route.timed("sample", work, lambda _: (3, 0, "compiled"))
    assert route.seconds["sample"] < 0.5 * route.story[-1].seconds
    if route.story[-1].seconds > 1.5:
        assert route.story[-1].why.endswith("s of it compiling, once)")
    route.timed("certify", lambda: time.sleep(0.2), lambda _: (3, 0, "slept"))  # the control
    assert route.seconds["certify"] > 0.19
    assert route.story[-1].why == "slept"


@pytest.mark.parametrize(
    ("family", "ours"),
    [
        ("bernoulli", "logistic"),
        ("Binomial", "logistic"),
        ("logit", "logistic"),
        ("gaussian", "normal"),
        ("Gaussian(2.5)", "normal(2.5)"),
        ("negbinomial(3)", "negative_binomial(3)"),
        ("Poisson", "poisson"),
    ],
)
def test_a_family_by_the_name_of_another_package_is_ours(family, ours):
    assert check_family(family, seek=True) == check_family(ours, seek=True)
    with pytest.raises(ValueError, match="family='tweedie' is not here: fit"):
        check_family("tweedie")


def test_options_of_draws_and_coreset_are_taken_and_kept(rows, tmp_path):
    asked = {"draws": 300, "tune": 400, "chains": 3, "sampler": "mala", "method": "calibrated", "size": 150}
    fit = bc.fit("clicked ~ age", rows, random_seed=1, progressbar=False, **asked)
    posterior = fit._drawn.posterior
    assert posterior.sizes["chain"] == 3
    assert posterior.sizes["draw"] >= 300  # more where the certificate asks for them
    assert posterior.attrs["sampler"] == "mala"
    assert fit.coreset.method == "calibrated"
    assert len(fit.coreset) <= 150
    assert fit._options == FitOptions(**asked)
    assert fit_call(fit).endswith(
        "draws=300, tune=400, chains=3, sampler='mala', method='calibrated', size=150, random_state=1)"
    )
    assert fit.story[1].why.startswith("3 chains of ")
    fit.save(tmp_path / "fit")
    assert bc.read_fit(tmp_path / "fit")._options == fit._options
    tight = fit.with_prior({"age": bc.priors.Normal(0, 0.01)})
    assert tight._drawn.posterior.sizes["chain"] == 3
    assert tight._drawn.posterior.attrs["sampler"] == "mala"


def test_a_coreset_that_was_asked_for_is_not_replaced(rows):
    with pytest.warns(UserWarning, match="not certified"):
        fit = bc.fit("clicked ~ age + device", rows, method="uniform", size=15, random_state=1, progressbar=False)
    assert (fit.coreset.method, len(fit.coreset)) == ("uniform", 15)
    assert "fit again with another method='uniform', size=15, or without" in fit.story[-1].why


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"draws": 0}, "draws=0 must be at least 1"),
        ({"chains": 2.5}, "chains=2.5"),
        ({"tune": -1}, "tune=-1 must be at least 0"),
        ({"sampler": "hmc"}, "sampler='hmc' is unknown"),
        ({"method": "lasso"}, "method='lasso' is unknown"),
        ({"size": 0}, "size=0 must be at least 1"),
        ({"sampler": "gibbs", "prior": bc.priors.Laplace(0, 1)}, "sampler='gibbs'"),
        ({"sampler": "gibbs", "family": "poisson"}, "sampler='gibbs'"),
        ({"sampler": "joint", "family": "normal"}, "sampler='joint' takes the sd of the noise as given"),
        ({"random_state": 1, "random_seed": 2}, "random_seed"),
    ],
)
def test_wrong_options_are_refused_before_rows_are_read(rows, wrong, text):
    def unread():
        raise AssertionError("rows are read")

    with pytest.raises((TypeError, ValueError), match=text):
        bc.fit(unread, label="clicked", **wrong)


def test_warnings_of_a_step_do_not_hide_its_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ZeroDivisionError), collected_warnings():
            warnings.warn("a word", UserWarning, stacklevel=1) or 1 / 0
        with pytest.raises(UserWarning, match="a word"), collected_warnings():
            warnings.warn("a word", UserWarning, stacklevel=1)


def test_a_print_says_which_label_is_the_event_and_what_weights_add_up_to(rows, flat):
    share = 100.0 * (rows["clicked"] == "yes").mean()
    assert f"clicked ~ age + device 6,000 observations (clicked = yes: {share:.1f}%);" in one_line(flat)
    assert "Weights:" not in repr(flat)
    weighted = bc.fit("clicked ~ age", rows, weights="w", random_state=1, progressbar=False)
    total = f"{rows['w'].sum():,.6g}"
    assert f" Weights: 6,000 rows count as {total}; weights of a survey need cluster= too." in one_line(weighted)
    shares = rows.assign(w=rows["w"] / rows["w"].sum(), clicked=rows["clicked"] == "yes")
    poor = bc.fit("clicked ~ age", shares, weights="w", random_state=1, progressbar=False)
    assert " Weights: 6,000 rows count as 1, which leaves much to the prior: divide the weights by" in one_line(poor)


def test_a_print_names_coefficients_that_the_prior_decides(rows, flat):
    assert "The data say little" not in one_line(flat)  # the control: 6,000 rows tell both coefficients
    separated = rows.assign(rare=rows.index < 8, clicked=np.where(rows.index < 8, "no", rows["clicked"]))
    fit = bc.fit("clicked ~ age + rare", separated, random_state=1, progressbar=False)
    words = re.search(r"The data say little of 'rare': posterior sds are up to (\d+)% of the prior's\.", one_line(fit))
    assert words
    share = fit.summary().loc["rare", "sd"] / (2.5 / separated["rare"].std())
    assert int(words[1]) == pytest.approx(100.0 * share, abs=1.0)


@pytest.mark.parametrize("family", [None, "poisson"])
@pytest.mark.parametrize("groups", ["", " + (1 | county)"])
def test_all_rows_in_place_of_a_build_that_failed_ask_for_time_and_memory(rows, monkeypatch, family, groups):
    def fails(*_, **__):
        raise RuntimeError("no mode found")

    monkeypatch.setattr(routes, "build_coreset", fails)
    taken = []
    monkeypatch.setattr(routes.Given, "everything", lambda *_: taken.append(1) or pytest.fail("all rows were read"))
    table = rows.assign(n=np.arange(len(rows)) % 3)
    formula = f"{'clicked' if family is None else 'n'} ~ age{groups}"
    how = {"family": family, "random_state": 1, "progressbar": False}
    with pytest.raises(RuntimeError, match=r"failed \(no mode found\), and .* more than max_seconds=1e-06: give"):
        bc.fit(formula, table, max_seconds=1e-6, **how)
    monkeypatch.setattr(routes, "MAX_ROWS_BYTES", 1000)
    with pytest.raises(RuntimeError, match=r"all [\d,]+ rows of 2 columns take .* GB of memory"):
        bc.fit(formula, table, **how)


@pytest.mark.filterwarnings("ignore:groups, or cells of groups, have so few rows")
def test_rows_that_a_build_has_kept_ask_for_time(monkeypatch):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=3000), "g": np.arange(3000) // 2})
    table["y"] = table["x"] + rng.logistic(size=3000) > 0
    monkeypatch.setattr(routes, "TIMED_FROM_ROWS", 1000)
    with pytest.raises(RuntimeError, match=r"has kept all rows, as their groups are small, and .* max_seconds=1e-06"):
        bc.fit("y ~ x + (1 | g)", table, max_seconds=1e-6, random_state=1, progressbar=False)
