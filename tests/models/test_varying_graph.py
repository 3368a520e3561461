"""PyMC models of several factors and slopes that vary: the density is the model's; draws, certificate, predictions."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.models.pymc import correlated
from bayescore.priors.groups import LKJ_ETA
from bayescore.validation import DataError
from tests import group_draws
from tests.coresets.celled import SLOPES, TWO, celled
from tests.hand_made import fit_of, poststratify

BOTH = f"{SLOPES} + (1 | b)"


def built(terms, **shape):
    frame = celled(**shape)
    told = {"formula": f"y ~ w + x + z + {terms}", "method": "multilevel", "random_state": 0, "progressbar": False}
    return frame, bc.build_coreset(frame, **told)


@pytest.mark.parametrize("group_prior", [bc.priors.HalfStudentT(3.0, 2.5), bc.priors.HalfNormal(0.8)])
def test_the_density_is_the_models(group_prior):
    """Log densities at two points differ by as much as those of beta, sds, correlation and effects written down."""
    _, core = built(BOTH, n_a=6, n_b=3, nested=True, median=15, slope=0.5)
    model = bc.model(core, prior=bc.priors.Normal(0.0, 2.0), group_prior=group_prior)
    names = ["u_a", "sigma_a", "rho_a", "u_b", "sigma_b"]
    told = model.compile_fn(
        model.replace_rvs_by_values([model[name] for name in names]), inputs=model.value_vars, mode="FAST_COMPILE"
    )
    prior = model.compile_logp(
        vars=[model["sigma_a"], model["rho_a_standardised"], model["sigma_b"]], mode="FAST_COMPILE"
    )
    rng, gaps = np.random.default_rng(0), []
    for _ in range(2):
        point = {
            "beta": rng.normal(size=4),
            "sigma_a_log__": 0.3 * rng.normal(size=2),
            "rho_a_standardised_logodds__": 0.3 * rng.normal(size=1),
            "u_a_standardised": rng.normal(size=(6, 2)),
            "sigma_b_log__": 0.3 * rng.normal(),
            "u_b_standardised": rng.normal(size=18),
        }
        point = {value.name: point[str(value.name)] for value in model.value_vars}
        a, sigma_a, rho, b, sigma_b = told(point)
        own = prior(point) + stats.norm.logpdf(point["beta"], 0.0, 2.0).sum()
        covariance = np.diag(sigma_a) @ np.array([[1.0, rho[0]], [rho[0], 1.0]]) @ np.diag(sigma_a)
        own += (
            stats.multivariate_normal([0.0, 0.0], covariance).logpdf(a).sum() + stats.norm.logpdf(b, 0.0, sigma_b).sum()
        )
        z = point["u_a_standardised"]
        moved = [told({**point, "u_a_standardised": z + step})[0] - a for step in np.eye(2)]  # du / dz: it is affine
        own += np.log(np.abs(np.linalg.det(np.stack(moved, axis=2)))).sum()
        own += np.log(told({**point, "u_b_standardised": point["u_b_standardised"] + 1.0})[3] - b).sum()
        a, b = np.vstack([a, np.zeros(2)]), np.append(b, 0.0)
        eta = core.X @ point["beta"] + core.offset
        eta += (core.X[:, [0, 2]] * a[core.group[:, 0]]).sum(axis=1) + core.X[:, 0] * b[core.group[:, 1]]
        own += core.weights @ check_family("logistic").log_p(eta, core.y)
        gaps.append(float(model.compile_logp(mode="FAST_COMPILE")(point)) - own)
    assert gaps[0] == pytest.approx(gaps[1], abs=1e-6)


@pytest.mark.slow
def test_correlations_have_the_lkj_prior():
    """Each of three has (1 + rho) / 2 ~ Beta(eta + 1/2, eta + 1/2). False alarms: 1e-3. Control: another eta fails."""
    with pm.Model():
        root = correlated("partial", np.array([[0, 3]] * 3))
        lower = pm.draw(root, 4000, random_seed=1)
    rho = lower @ lower.transpose(0, 2, 1)
    assert rho[:, [0, 1, 2], [0, 1, 2]] == pytest.approx(1.0)
    for i, j in ((1, 0), (2, 0), (2, 1)):
        share = 0.5 + 0.5 * rho[:, i, j]
        assert stats.kstest(share, stats.beta(LKJ_ETA + 0.5, LKJ_ETA + 0.5).cdf).pvalue > 1e-3 / 3
        assert stats.kstest(share, stats.beta(LKJ_ETA, LKJ_ETA).cdf).pvalue < 1e-3


def test_an_sd_near_0_makes_no_ridge():
    """Chains whose step fits elsewhere were stuck there: slopes in the coordinates were 1 / sd^2."""
    _, core = built(BOTH, n_a=6, n_b=3, nested=True, median=15, slope=0.5)
    model = bc.model(core)
    rng = np.random.default_rng(0)
    point = model.initial_point() | {
        "sigma_a_log__": np.array([-7.0, 0.1]),
        "rho_a_standardised_logodds__": np.array([1.0]),
        "u_a_standardised": rng.normal(size=(6, 2)),
    }
    assert np.abs(model.compile_dlogp(vars=[model["u_a_standardised"]], mode="FAST_COMPILE")(point)).max() < 30.0


@pytest.fixture(scope="module")
def drawn():
    """Return rows, their coreset, and draws about its posterior, in the place of those of NUTS, which take minutes."""
    frame, core = built(SLOPES, n_a=12, n_b=2, nested=True, median=40, slope=0.5)
    asked = {}

    def fake(**options):
        asked.update(options)
        return group_draws.drawn(core, draws=1000)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pm, "sample", fake)
        idata = bc.sample(core, sampler="nuts", draws=1000, chains=2, random_seed=1, progressbar=False)
    assert set(asked["var_names"]) == {"beta", "sigma_a", "rho_a", "u_a"}
    assert len(asked["initvals"]) == 2
    return frame, core, idata


@pytest.mark.slow
def test_draws_are_weighed(drawn, tmp_path):
    frame, core, idata = drawn
    posterior = idata["posterior"]
    assert posterior.attrs["sampler"] == "nuts"
    assert posterior.attrs["group_terms"] == "(1 + x | a)"
    certificate = bc.certify(idata, core, frame, label="y", max_draws=2000, progressbar=False)
    assert certificate.log_ratio_sd < 0.3
    assert certificate.level != "not certified"
    assert len(certificate.effects) == 12 * 2
    assert certificate.effects["mean_error_sd"].abs().max() < 0.1
    assert set(certificate.idata["posterior"].data_vars) >= {"beta", "u_a", "sigma_a", "rho_a"}
    assert "log sigma_a[x]" in certificate.coordinates.index
    certificate.to_html(tmp_path / "page.html", idata, core)
    assert "Variance between groups of x by a" in (tmp_path / "page.html").read_text(encoding="utf-8")
    changed = idata.copy()
    changed["posterior"]["u_a"] = changed["posterior"]["u_a"] + 0.3
    assert "misses Stein's identity" in bc.certify(changed, core, frame, label="y", progressbar=False).text


def test_a_coreset_of_other_rows_is_not_certified(drawn):
    """The negative control: weights see that the rows have other effects."""
    frame, core, idata = drawn
    found = bc.certify(idata, core, frame.assign(a=(frame.a + 1) % 12), label="y", progressbar=False)
    assert found.level == "not certified"
    assert found.log_ratio_sd > 2.0


def test_predictions_know_groups_and_average_over_new_ones(drawn):
    frame, core, idata = drawn
    people = frame.iloc[[0, 100, 500]]
    fit = fit_of(idata, core)
    found = fit.predict(people)["mean"].to_numpy()
    posterior = idata["posterior"]
    X = core.design.transform(people[["w", "x", "z"]].to_numpy())
    beta, a = (posterior[name].values.reshape(-1, *posterior[name].shape[2:]) for name in ("beta", "u_a"))
    eta = beta @ X.T + np.einsum("sgq,gq->sg", a[:, people.a.to_numpy()], X[:, [0, 2]])
    np.testing.assert_allclose(found, check_family("logistic").mean(eta).mean(axis=0), rtol=1e-10)
    new = fit.predict(people, groups={"a": [99, 99, 99]})["mean"].to_numpy()
    rng, sd = np.random.default_rng(0), posterior["sigma_a"].values.reshape(-1, 2)
    rho, normals = posterior["rho_a"].values.reshape(-1, 1), rng.standard_normal((2, len(beta), 400))
    first = sd[:, :1] * normals[0]
    second = sd[:, 1:] * (rho * normals[0] + np.sqrt(1.0 - rho**2) * normals[1])
    for n in range(3):
        eta = (beta @ X[n])[:, None] + first + X[n, 2] * second
        assert new[n] == pytest.approx(check_family("logistic").mean(eta).mean(), abs=2e-3)
    with pytest.raises(DataError, match=r"groups is a list; give a dict .* 'a'"):
        fit.predict(people, groups=[1, 2, 3])
    with pytest.raises(DataError, match="X has no column 'a'"):
        fit.predict(people.drop(columns="a"))
    cells = pd.DataFrame({"w": 0.0, "x": [0.0, 1.0], "z": 0.0, "a": 0, "n": 1})
    assert len(poststratify(idata, core, cells, by="a", weights="n")) == 1


def test_others_refuse_effects_that_they_do_not_know(drawn):
    _frame, core, _idata = drawn
    with pytest.raises(DataError, match=r"sampler='collapsed' is for one grouping factor .* leave sampler out"):
        bc.sample(core, sampler="collapsed", progressbar=False)
    with pytest.raises(ValueError, match="sampler='mala' knows nothing of"):
        bc.sample(core, sampler="mala", progressbar=False)
    with pytest.raises(DataError, match="Horseshoe is not for models with groups"):
        bc.model(core, prior=bc.priors.Horseshoe())
    _, crossed = built(TWO, n_a=6, n_b=6, median=30)
    assert {"sigma_a", "u_a", "sigma_b", "u_b"} <= {each.name for each in bc.model(crossed).unobserved_RVs}


def test_draws_of_other_groups_are_refused(drawn):
    """A poststratification by a coreset of fewer factors left out the effects of the others, in silence."""
    frame, core, idata = drawn
    told = {"method": "multilevel", "random_state": 0, "progressbar": False}
    one = bc.build_coreset(frame, formula="y ~ w + x + z + (1 | a)", **told)
    cells, rows = frame.iloc[:5].assign(n=1), {"label": "y", "progressbar": False}
    with pytest.raises(DataError, match=r"effects of \(1 \+ x \| a\), and core has \(1 \| a\)"):
        poststratify(idata, one, cells, weights="n")
    assert "another coreset" in bc.certify(idata, one, frame, **rows).text
    few = bc.sample(one, draws=100, tune=100, chains=2, random_seed=1, progressbar=False)
    with pytest.raises(DataError, match=r"effects of \(1 \| a\), and core has \(1 \+ x"):
        poststratify(few, core, cells, weights="n")
    assert "another coreset" in bc.certify(few, core, frame, **rows).text
    fit = fit_of(few, one)
    named = fit.predict(cells, groups={"a": "a"})
    pd.testing.assert_frame_equal(named, fit.predict(cells))
    with pytest.raises(DataError, match=r"groups names 'c', no grouping factor of the posterior; give a dict .* 'a'"):
        fit.predict(cells, groups={"c": "a"})
    less = idata.copy()
    if hasattr(less["posterior"], "to_dataset"):  # ArviZ 1: a tree
        less["posterior"].dataset = less["posterior"].to_dataset().drop_vars("u_a")
    else:
        less["posterior"] = less["posterior"].drop_vars("u_a")
    with pytest.raises(DataError, match="'u_a' is missing"):
        bc.certify(less, core, frame, **rows)
