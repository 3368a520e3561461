"""One contract for every likelihood: NumPy, compiled code and PyTensor agree, and unknown ones raise."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats

import bayescore as bc
from bayescore.data.passes import TILE
from bayescore.families import register
from bayescore.families.family import FAMILIES, check_family
from bayescore.families.gamma import Gamma
from bayescore.families.logistic import Logistic
from bayescore.families.negative_binomial import NegativeBinomial
from bayescore.families.normal import Gaussian
from bayescore.families.poisson import Poisson
from bayescore.families.probit import Probit
from bayescore.families.student_t import StudentT
from bayescore.families.weibull import Weibull
from bayescore.models.laplace import LaplaceApproximation
from bayescore.models.posterior import likelihood_terms, log_likelihoods, posterior
from bayescore.models.pymc import model as pymc_model
from tests.conftest import make_rows
from tests.families.cauchit import Cauchit

CAUCHIT = Cauchit()
NUMBERED = [NegativeBinomial(0.7), NegativeBinomial(30.0), Gamma(0.7), Gamma(30.0), Weibull(0.7), Weibull(3.0)]
NUMBERED += [Gaussian(0.4), Gaussian(2.5), StudentT(3.0, 0.4), StudentT(30.0, 1.5)]
PACKAGED = [*FAMILIES.values(), *NUMBERED]
SIDES = pytest.mark.parametrize("side", [1, -1])
EVERY = pytest.mark.parametrize("family", [*PACKAGED, CAUCHIT], ids=lambda family: family.name)


def far_and_near(family):
    eta = np.concatenate([-np.geomspace(family.reach, 1e-3, 63), [0.0, 0.5], np.geomspace(1e-3, family.reach, 63)])
    assert len(eta) == TILE
    return eta


@EVERY
@SIDES
def test_numpy_compiled_and_pytensor_agree(family, side):
    at = far_and_near(family)
    log_p, score, sides = family.log_p(at, side), family.score(at, side), np.full(TILE, float(side))
    rows, values = at.copy(), np.empty(TILE)
    family.rows(rows, sides, values, *family.given())
    np.testing.assert_allclose(values, log_p, rtol=2e-12, atol=1e-300)
    np.testing.assert_allclose(rows, score, rtol=2e-12, atol=1e-300)
    out = np.empty((4, TILE))
    family.derivatives(at, sides, out, np.empty((3, TILE)), *family.given())
    np.testing.assert_allclose(out[0], log_p, rtol=2e-12, atol=1e-300)
    np.testing.assert_allclose(out[1], score, rtol=2e-12, atol=1e-300)
    np.testing.assert_allclose(out[2], family.curvature(at, side), rtol=5e-10, atol=1e-300)
    near = side * at > -50.0  # further out the probit's is a difference of numbers of the size of eta
    np.testing.assert_allclose(out[3][near], family.third(at, side)[near], rtol=1e-8, atol=1e-9)
    eta = pt.dvector()
    graph = family.log_p_graph(eta, sides)
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        values, slopes = pytensor.function([eta], [graph, pytensor.grad(graph.sum(), eta)])(at)
    np.testing.assert_allclose(values, log_p, rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(slopes, score, rtol=1e-9, atol=1e-300)
    for part in (out, values, slopes, family.curvature(at, side), family.third(at, side)):
        assert np.isfinite(part).all()


@EVERY
@SIDES
def test_derivatives_are_derivatives_of_log_probabilities(family, side):
    eta, h = side * np.linspace(-30, 8, 77), 1e-5
    for low, high, tolerance in (("log_p", "score", 1), ("score", "curvature", -1), ("curvature", "third", -1)):
        of = getattr(family, low)
        slope = tolerance * (of(eta + h, side) - of(eta - h, side)) / (2 * h)
        np.testing.assert_allclose(getattr(family, high)(eta, side), slope, rtol=1e-5, atol=1e-8)
    p = family.mean(eta)
    if family.numbers:
        np.testing.assert_array_equal(p, eta)
        noise = stats.norm(scale=family.unit) if family.quadratic else stats.t(family.size, scale=family.unit)
        np.testing.assert_allclose(np.exp(family.log_p(eta, side)), noise.pdf(eta), rtol=1e-11)
        np.testing.assert_allclose(family.variance(eta), noise.var())
    elif family.times:  # the hazard is the slope of the cumulative one
        near = eta[np.abs(eta) < 5.0]
        np.testing.assert_allclose(np.exp(family.log_p(near, 1)), family.score(near, -1), rtol=1e-11)
        np.testing.assert_allclose(p, np.exp(eta), rtol=1e-12)
    elif family.least:
        np.testing.assert_allclose(p, np.exp(eta) / -np.expm1(-np.exp(eta)), rtol=1e-12)
        np.testing.assert_allclose((p - 1.0) * family.score(eta, 1), -family.score(eta, -1), rtol=1e-12, atol=1e-15)
    elif family.counts:
        np.testing.assert_allclose(p, np.exp(eta), rtol=1e-12)
        np.testing.assert_allclose(p * family.score(eta, 1), -family.score(eta, -1), rtol=1e-12)
        noise = 0.0 if family.amounts else p
        np.testing.assert_allclose(family.variance(eta), noise + p**2 / (family.given() or (np.inf,))[0])
    else:
        np.testing.assert_allclose(np.exp(family.log_p(eta, 1)), p, rtol=1e-11)
        np.testing.assert_allclose(sum(np.exp(family.log_p(eta, each)) for each in (1, -1)), 1.0, rtol=1e-12)
        np.testing.assert_allclose(family.variance(eta), p * (1.0 - p))
    assert family.draw(np.full(4000, 0.3), np.random.default_rng(0)).mean() == pytest.approx(
        float(family.mean(np.array(0.3))), abs=0.1
    )
    full, higher, step, sides = np.empty((3, 4, TILE)), np.empty((2, TILE)), 1e-5, np.full(TILE, float(side))
    at = np.linspace(-8.0, 8.0, TILE)
    for k, moved in enumerate((at - step, at, at + step)):
        family.derivatives(moved, sides, full[k], np.empty((3, TILE)), *family.given())
    if family.near:
        family.higher(at, sides, full[1], higher, *family.given())
        np.testing.assert_allclose(higher[0], (full[2, 3] - full[0, 3]) / (2.0 * step), atol=1e-6)


@EVERY
def test_a_likelihood_is_the_same_after_pickling(family):
    assert pickle.loads(pickle.dumps(family)) == family


@pytest.mark.parametrize("family", PACKAGED, ids=lambda family: family.name)
def test_the_families_of_the_package_pass_the_checks_of_register(family):
    assert register(family) is family


def test_probabilities_that_are_not_those_of_one_label_are_refused():
    @dataclass(frozen=True)
    class Half(Logistic):
        name = "half"

        def mean(self, eta):
            return -np.expm1(-np.exp(eta))

    with pytest.raises(ValueError, match=r"'half': exp\(log_p\(eta, 1\)\) is .*, and mean\(eta\) is .* mend one"):
        register(Half())
    assert "half" not in FAMILIES


def test_a_mean_of_counts_that_their_sides_do_not_have_is_refused():
    @dataclass(frozen=True)
    class Twice(Poisson):
        name = "twice"

        def mean(self, eta):
            return 2.0 * np.exp(eta)

    with pytest.raises(ValueError, match=r"'twice': mean\(eta\) score\(eta, 1\) is .* a count of the mean has"):
        register(Twice())


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"name": "probit"}, ValueError, "'probit' is registered already, as Probit"),
        ({"name": "other", "upper": lambda self, eta: -np.exp(-eta)}, ValueError, r"exp\(log_p\(eta, 1\)\) is"),
        (
            {"name": "other", "upper_third": lambda self, eta: np.sinh(eta)},
            ValueError,
            r"third\(eta, 1\) is .* the slope of minus curvature",
        ),
        (
            {
                "name": "other",
                "upper_third": lambda self, eta: np.where(abs(eta) > 99, np.nan, Logistic().upper_third(eta)),
            },
            ValueError,
            "third.* is not finite at eta",
        ),
        (
            {"name": "other", "derivatives": staticmethod(Probit.derivatives)},
            ValueError,
            "compiled derivatives' log_p of side 1 is",
        ),
        ({"name": "other", "rows": staticmethod(Probit.rows)}, ValueError, "compiled rows' log_p of side 1 is"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_what_does_not_keep_the_contract_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        register(dataclass(frozen=True)(type("Other", (Logistic,), changes))())
    with pytest.raises(TypeError, match=r"'probit' is no Family; derive its class"):
        register("probit")
    assert list(FAMILIES) == ["logistic", "probit", "cloglog", "loglog", "poisson", "truncated_poisson"]


DATA = make_rows()
X, Y = DATA.X, DATA.y
AT = np.zeros(3)
DOORS = {
    "find_map": lambda family: bc.find_map(DATA, family),
    "find_mle": lambda family: bc.find_mle(DATA, family),
    "mala": lambda family: bc.sample(DATA, family, sampler="mala", progressbar=False),
    "nuts": lambda family: bc.sample(DATA, family, sampler="nuts", progressbar=False),
    "evidence": lambda family: bc.log_evidence(DATA, family=family),
    "full data": lambda family: bc.all_rows(X, Y, family=family, progressbar=False),
    "coreset": lambda family: bc.build_coreset(X, Y, family=family, size=20, progressbar=False),
    "stream": lambda family: bc.stream(size=20, family=family),
    "model": lambda family: pymc_model(DATA, family=family),
    "density": lambda family: posterior(DATA, family, bc.priors.Normal()),
}
COMPILED = {
    "terms": lambda family: likelihood_terms(AT, DATA, family),
    "draws": lambda family: log_likelihoods(np.zeros((2, 3)), DATA, family),
    "scores": lambda family: LaplaceApproximation(family, AT, np.eye(3)).row_scores(DATA)[:2],
}


@pytest.mark.parametrize("door", DOORS)
def test_an_unknown_name_raises_everywhere(door):
    with pytest.raises(ValueError, match=r"family='cauchit' is unknown; choose one of 'logistic', 'probit'"):
        DOORS[door]("cauchit")


@pytest.mark.parametrize("door", [*DOORS, *COMPILED])
def test_an_unregistered_likelihood_raises_everywhere(door):
    with pytest.raises(TypeError, match=r"family=Cauchit\(\) is not registered; call .*register"):
        {**DOORS, **COMPILED}[door](CAUCHIT)
    assert check_family(Logistic()).name == "logistic"
