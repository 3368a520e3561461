"""The sd of normal noise that `family="normal"` leaves out: the restricted likelihood's, by sums, and what is said."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

import bayescore as bc
from bayescore.cli import main
from bayescore.models.normal import find_noise
from bayescore.models.predictor import multipliers
from bayescore.priors.groups import group_prior_for, log_sigma_terms
from bayescore.validation import DataError
from tests.counted import QUIET
from tests.exact_normal import Exact
from tests.families.test_normal import CROSSED, FLAT, GROUPED, ROWS, SLOPES, X, Y, numbers

FAMILY = "normal"
RESIDUAL = math.sqrt(((Y - X @ np.linalg.lstsq(X, Y, rcond=None)[0]) ** 2).sum() / (len(Y) - 3))
EVERY = [FLAT, GROUPED, CROSSED, SLOPES]


def built(formula, rows=ROWS, **others):
    return bc.build_coreset(rows, formula=formula, **{"family": FAMILY, **others}, **QUIET)


# --------------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e15])
def test_without_groups_it_is_the_residual_sd_of_least_squares(unit):
    core = built(FLAT, ROWS.assign(y=ROWS["y"] * unit))
    assert core.params["sd"] == pytest.approx(RESIDUAL * unit, rel=1e-5)
    assert core.family == f"normal({core.params['sd']!r})".replace(".0)", ")")
    assert core.params["sd_freedom"] == pytest.approx(len(Y) - 3)
    assert core.params["sd_se"] == pytest.approx(core.params["sd"] / math.sqrt(2.0 * (len(Y) - 3)))


@pytest.mark.parametrize("formula", EVERY)
def test_a_row_of_weight_w_counts_as_w_rows(formula):
    rows = ROWS[:900]
    weighted, repeated = built(formula, rows, weights="w"), built(formula, rows.loc[rows.index.repeat(rows["w"])])
    for name in ("sd", "sd_se", "sd_freedom"):
        assert weighted.params[name] == pytest.approx(repeated.params[name], rel=1e-4)
    assert built(formula, rows).params["sd_freedom"] < 0.5 * weighted.params["sd_freedom"]  # a control


@pytest.mark.parametrize("formula", EVERY)
def test_columns_that_depend_on_each_other_take_one_degree_of_freedom(formula):
    rows = ROWS.assign(c=3.0 * ROWS["a"] - 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = built(formula.replace("device", "device + c"), rows)
    assert found.params["sd"] == pytest.approx(built(formula).params["sd"], rel=1e-5)


def dense(core, theta):
    """Return minus the log of the restricted likelihood and the priors at log sd, log sds and z, by dense matrices."""
    X, y, w, at = core.X, -core.offset, core.weights, 1
    V, scale = np.diag(np.exp(2.0 * theta[0]) / w), group_prior_for(None, core, bc.families.Gaussian(1.0)).sigma
    value = 0.0
    for f, own in enumerate(core.groups):
        z = multipliers(X, core.design, own)
        sd = np.exp(theta[at : at + z.shape[1]])
        S = np.diag(sd**2)
        if len(sd) == 2:
            rho = np.tanh(theta[at + 2])
            S[0, 1] = S[1, 0] = rho * sd.prod()
            value -= 2.0 * np.log(1.0 - rho**2)  # LKJ(2), and of z
        V = V + (z @ S @ z.T) * (core.group[:, [f]] == core.group[:, f])
        value -= sum(log_sigma_terms(each, 3.0, scale)[0] for each in np.log(sd))
        at += len(sd) * (len(sd) + 1) // 2
    C = np.linalg.cholesky(V)
    Q, R = np.linalg.qr(np.linalg.solve(C, X))
    left = np.linalg.solve(C, y)
    left = left - Q @ (Q.T @ left)
    return value + np.log(np.diagonal(C)).sum() + np.log(abs(np.diagonal(R))).sum() + 0.5 * left @ left


@pytest.mark.parametrize("formula", [GROUPED, CROSSED, SLOPES])
def test_with_groups_it_is_the_mode_of_the_dense_restricted_likelihood(formula):
    rows = numbers(240, seed=3, n_groups=12)
    found = find_noise(built(formula, rows))
    everything = bc.all_rows(rows, formula=formula, family="normal(1)", **QUIET)
    begin = np.append(math.log(3.0), np.zeros({GROUPED: 1, CROSSED: 2, SLOPES: 3}[formula]))
    mode = optimize.minimize(lambda theta: dense(everything, theta), begin, method="BFGS", options={"gtol": 1e-3}).x
    assert math.log(found.sd) == pytest.approx(mode[0], abs=0.02 * found.log_se)
    h = 0.02 * np.eye(len(mode))
    hessian = np.array(
        [[sum(s * t * dense(everything, mode + s * a + t * b) for s in (-1, 1) for t in (-1, 1)) for a in h] for b in h]
    ) / (4.0 * 0.02**2)
    assert found.log_se == pytest.approx(math.sqrt(np.linalg.inv(hessian)[0, 0]), rel=0.02)
    assert built(FLAT, rows).params["sd"] > found.sd * (1.0 + found.log_se)  # a control: effects matter


@pytest.mark.parametrize("over", [1e3, 1e5])
@pytest.mark.parametrize("formula", ["y ~ x + (1 | g)", "y ~ x + (1 + x | g) + (1 | h)"])
def test_effects_may_be_far_larger_than_the_noise(formula, over):
    """The sds of effects are taken to be infinite: groups are columns."""
    rng = np.random.default_rng(7)
    rows = pd.DataFrame({"x": rng.normal(size=300), "g": rng.integers(0, 10, 300), "h": rng.integers(0, 7, 300)})
    rows["y"] = over * rng.normal(size=10)[rows["g"]] + rng.normal(size=300)
    Z = pd.get_dummies(rows["g"]).to_numpy(float)
    if "h" in formula:
        Z = np.hstack([Z, Z * rows[["x"]].to_numpy(), pd.get_dummies(rows["h"])])
    Z = np.column_stack([Z, rows["x"]])
    left = rows["y"] - Z @ np.linalg.lstsq(Z, rows["y"], rcond=None)[0]
    sd = math.sqrt(left @ left / (300 - np.linalg.matrix_rank(Z)))
    assert built(formula, rows).params["sd"] == pytest.approx(sd, rel=0.03)
    with pytest.raises(DataError, match="the responses have no noise"):
        built(formula, rows.assign(y=over * rows["g"] ** 2.0))


@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize("of_groups", [0.3, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("formula", ["y ~ x + (1 | g)", "y ~ x + (1 | g) + (1 | h)", "y ~ x + (1 + x | g) + (1 | h)"])
def test_it_is_found_whatever_the_sd_of_effects(formula, of_groups):
    """Within 7%, 5 standard errors, of the noise's 1; the sd of a fit without groups is the control."""
    rng = np.random.default_rng(1000)
    rows = pd.DataFrame({"x": rng.normal(size=3000), "g": rng.integers(0, 50, 3000), "h": rng.integers(0, 20, 3000)})
    effects = rng.normal(0.0, of_groups, 50)[rows["g"]]
    if "h" in formula:
        effects = effects + rng.normal(0.0, of_groups, 20)[rows["h"]]
    rows["y"] = rows["x"] + effects + rng.normal(size=3000)
    assert built(formula, rows).params["sd"] == pytest.approx(1.0, rel=0.07)
    assert of_groups < 1.0 or built("y ~ x", rows).params["sd"] > 1.2


@pytest.mark.filterwarnings("ignore:the posterior is given the sd of the noise")
def test_slopes_of_a_column_far_from_0_do_not_hide_the_mode():
    """The sd is that of the column about its mean, but for the prior of the intercept's sd; control: no slopes."""
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"x": rng.normal(size=2000), "g": rng.integers(0, 30, 2000)})
    slope = 0.5 + rng.normal(0.0, 0.3, 30)[rows["g"]]
    rows["y"] = 1.0 + slope * rows["x"] + rng.normal(0.0, 0.6, 30)[rows["g"]] + rng.normal(0.0, 0.8, 2000)
    near, far = (built("y ~ x + (1 + x | g)", rows.assign(x=rows["x"] + by)).params["sd"] for by in (0.0, 1000.0))
    assert far == pytest.approx(near, rel=0.005)
    assert built("y ~ x + (1 | g)", rows).params["sd"] > 1.05 * near


@pytest.mark.parametrize("formula", EVERY)
def test_every_way_to_the_sums_finds_the_same(formula, tmp_path):
    core, stream = built(formula), bc.stream(formula=formula, family=bc.families.Gaussian())
    for start in range(0, len(ROWS), 900):
        stream.partial_fit(ROWS[start : start + 900])
        if start == 900:
            early = stream.coreset().params["sd"]
            stream.save(tmp_path / "stream.ckpt")
            stream = bc.read_stream(tmp_path / "stream.ckpt")
    ROWS.to_parquet(tmp_path / "rows.parquet")
    parts = [built(None, part, design=core.design, family=core.family) for part in (ROWS[:1500], ROWS[1500:])]
    union = bc.Coreset.concat(parts)
    assert union.family == core.family
    for other in (
        stream.coreset(),
        built(formula, str(tmp_path / "rows.parquet")),
        bc.all_rows(ROWS, formula=formula, family=FAMILY, **QUIET),
        bc.build_coreset(core, family=FAMILY, **QUIET),
        bc.build_coreset(union, family=FAMILY, **QUIET),
    ):
        assert other.params["sd"] == pytest.approx(core.params["sd"], rel=2e-5)
        assert other.params["sd_se"] == pytest.approx(core.params["sd_se"], rel=1e-2)
    assert abs(early / core.params["sd"] - 1.0) > 1e-3  # a control: of the rows so far
    core.save(tmp_path / "core.parquet")
    assert bc.read_coreset(tmp_path / "core.parquet").params == core.params


@pytest.mark.parametrize("formula", ["y ~ x0 + x1", "y ~ x0 + x1 + (1 | g)"])
def test_the_posterior_is_that_with_the_sd_unknown(formula):
    rng = np.random.default_rng(5)
    rows = pd.DataFrame(
        {"x0": np.exp(rng.normal(size=500)), "x1": rng.random(500) < 0.1, "g": rng.integers(0, 20, 500)}
    )
    rows["y"] = 5.0 + rows["x0"] - rows["x1"] + rng.normal(size=20)[rows["g"]] + rng.normal(0.0, 2.0, 500)
    sd = built(formula, rows).params["sd"]
    exact = Exact.of(bc.all_rows(rows, formula=formula, family=FAMILY, **QUIET))
    mean, spread = exact.moments(sd, given=False)
    own, wide = exact.moments(sd, given=True)
    assert (abs(own - mean) / spread).max() < 0.02
    assert abs(wide / spread - 1.0).max() < 0.02
    _, other = exact.moments(2.0 * sd, given=True)  # a control
    assert abs(other / spread - 1.0).max() > 0.5


# -------------------------------------------------------------------------------------------------------- what is said


@pytest.mark.slow
@pytest.mark.parametrize("formula", EVERY)
def test_a_fit_has_sigma_wherever_it_is_asked(formula, tmp_path):
    found = bc.fit(formula, ROWS, family=FAMILY, random_state=1, **QUIET)
    sd, se = found.coreset.params["sd"], found.coreset.params["sd_se"]
    assert found.level == "certified"
    assert found.certificate.dispersion is None  # as the sd is a parameter
    sigma = found.summary().loc["sigma"]
    assert sigma["mean"] == pytest.approx(sd, abs=0.3 * se)
    assert sigma["sd"] == pytest.approx(se, rel=0.1)
    assert "log sigma" in found.certificate.coordinates.index
    assert found.prior_summary().loc["sigma", "prior"].startswith("HalfStudentT(nu=3")
    found.save(tmp_path / "fit.zip")
    again = bc.read_fit(tmp_path / "fit.zip", ROWS)
    pd.testing.assert_frame_equal(pd.DataFrame(found.summary()), pd.DataFrame(again.summary()))
    assert again.with_prior(bc.priors.Normal(0, 10)).summary().loc["sigma", "mean"] == pytest.approx(sd, abs=se)
    found.report(tmp_path / "fit.html")
    page = (tmp_path / "fit.html").read_text()
    assert "sigma" in page
    assert "given sd" not in page
    given = bc.fit(formula, ROWS, family=found.coreset.family, random_state=1, **QUIET)
    assert "sigma" not in given.summary().index
    assert given.certificate.dispersion.size == pytest.approx(sd, rel=2e-3)


def test_an_update_has_the_sd_of_all_rows():
    more = ROWS.assign(y=ROWS["y"] + np.random.default_rng(2).normal(0.0, 6.0, len(ROWS)))
    part = bc.fit(FLAT, ROWS, family=FAMILY, random_state=1, **QUIET)
    whole = part.update(more, **QUIET)
    known = built(FLAT, pd.concat([ROWS, more])).params
    assert whole.summary().loc["sigma", "mean"] == pytest.approx(known["sd"], abs=known["sd_se"])
    assert whole.level == "certified"
    given = bc.fit(FLAT, ROWS, family="normal(3)", random_state=1, **QUIET).update(more, **QUIET)
    assert given.coreset.family == "normal(3)"  # a control
    assert "intervals are too narrow" in given.certificate.dispersion.text


def test_the_command_line_has_it(tmp_path, capsys):
    ROWS.to_parquet(tmp_path / "rows.parquet")
    told = ["fit", str(tmp_path / "rows.parquet"), FLAT, "--family", "normal", "--output", str(tmp_path / "fit")]
    main([*told, "--seed", "1"])
    said = capsys.readouterr().out
    assert "normal regression" in said
    assert "\nsigma " in said


# ----------------------------------------------------------------------------------------------------------- bad input


def test_what_tells_no_sd_is_refused():
    with pytest.raises(DataError, match=r"rows of the weight 0.4 do not tell it beside 3 .* weights with the mean 1"):
        built(FLAT, ROWS.assign(w=1e-4), weights="w")
    assert built(FLAT, ROWS[:6]).params["sd_freedom"] == pytest.approx(3.0)  # a control
    for formula in (FLAT, GROUPED):
        with pytest.raises(DataError, match="the responses have no noise"):
            built(formula, ROWS.assign(y=2.0 * ROWS["a"] - 1.0))
    with pytest.raises(DataError, match="the responses have no noise"):
        built(GROUPED, ROWS.assign(y=ROWS["g"] ** 2.0))


def test_only_builds_find_it():
    core = built(FLAT)
    said = r"family='normal' lacks its sd: .* the family of their coreset has it"
    for ask in (
        lambda: bc.sample(core, family="normal", **QUIET),
        lambda: bc.find_map(core, family="normal"),
        lambda: bc.log_evidence(core, family="normal", random_state=1),
        lambda: bc.families.register(bc.families.Gaussian()),
    ):
        with pytest.raises(ValueError, match=said):
            ask()
    said = "family='normal' is given beside design: .* family=core.family"
    for ask in (
        lambda: built(None, ROWS, design=core.design),
        lambda: bc.all_rows(ROWS, design=core.design, family=FAMILY, **QUIET),
        lambda: bc.stream(design=core.design, family=FAMILY),
    ):
        with pytest.raises(DataError, match=said):
            ask()
