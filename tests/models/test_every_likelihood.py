"""One contract for every likelihood: NumPy, compiled code and PyTensor agree, and unknown ones raise."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

import bayescore as bc
from bayescore.coresets.calibration.pilot import LaplaceApproximation
from bayescore.data.passes.tiles import TILE
from bayescore.models.graph import regression_model
from bayescore.models.likelihoods import LIKELIHOODS, check_likelihood, register
from bayescore.models.likelihoods.logistic import Logistic
from bayescore.models.posterior import likelihood_terms, log_likelihoods, posterior
from tests.conftest import make_rows
from tests.models.cauchit import Cauchit

CAUCHIT = Cauchit()
EVERY = pytest.mark.parametrize("likelihood", [*LIKELIHOODS.values(), CAUCHIT], ids=lambda link: link.name)
ETA = np.concatenate([-np.geomspace(1e4, 1e-3, 63), [0.0, 0.5], np.geomspace(1e-3, 1e4, 63)])
assert len(ETA) == TILE


@EVERY
def test_numpy_compiled_and_pytensor_agree(likelihood):
    log_p, score = likelihood.log_p(ETA), likelihood.score(ETA)
    rows, values = ETA.copy(), np.empty(TILE)
    likelihood.rows(rows, values)
    np.testing.assert_allclose(values, log_p, rtol=2e-12, atol=1e-300)
    np.testing.assert_allclose(rows, score, rtol=2e-12, atol=1e-300)
    out = np.empty((4, TILE))
    likelihood.derivatives(ETA, out, np.empty((3, TILE)))
    np.testing.assert_allclose(out[0], log_p, rtol=2e-12, atol=1e-300)
    np.testing.assert_allclose(out[1], score, rtol=2e-12, atol=1e-300)
    np.testing.assert_allclose(out[2], likelihood.curvature(ETA), rtol=5e-10, atol=1e-300)
    near = ETA > -50.0  # further out the probit's is a difference of numbers of the size of eta
    np.testing.assert_allclose(out[3][near], likelihood.third(ETA)[near], rtol=1e-8, atol=1e-9)
    eta = pt.dvector()
    graph = likelihood.log_p_graph(eta)
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        values, slopes = pytensor.function([eta], [graph, pytensor.grad(graph.sum(), eta)])(ETA)
    np.testing.assert_allclose(values, log_p, rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(slopes, score, rtol=1e-9, atol=1e-300)
    for part in (out, values, slopes, likelihood.curvature(ETA), likelihood.third(ETA)):
        assert np.isfinite(part).all()


@EVERY
def test_derivatives_are_derivatives_and_the_link_is_symmetric(likelihood):
    eta, h = np.linspace(-30, 8, 77), 1e-5
    for low, high, tolerance in (("log_p", "score", 1), ("score", "curvature", -1), ("curvature", "third", -1)):
        of = getattr(likelihood, low)
        slope = tolerance * (of(eta + h) - of(eta - h)) / (2 * h)
        np.testing.assert_allclose(getattr(likelihood, high)(eta), slope, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(likelihood.probability(eta) + likelihood.probability(-eta), 1.0, rtol=1e-14)
    np.testing.assert_allclose(np.exp(likelihood.log_p(eta)), likelihood.probability(eta), rtol=1e-11)


@EVERY
def test_a_likelihood_is_the_same_after_pickling(likelihood):
    assert pickle.loads(pickle.dumps(likelihood)) == likelihood


def test_an_asymmetric_likelihood_is_refused_with_the_reason():
    @dataclass(frozen=True)
    class Cloglog(Logistic):
        name = "cloglog"

        def probability(self, eta):
            return -np.expm1(-np.exp(eta))

    with pytest.raises(
        ValueError, match=r"'cloglog' is not symmetric: p\(.*\) = 1\.\d+, not 1.*1 - p\(eta\) = p\(-eta\)"
    ):
        register(Cloglog())
    assert "cloglog" not in LIKELIHOODS


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"name": "probit"}, ValueError, "'probit' is registered already, as Probit"),
        ({"name": "other", "log_p": lambda self, eta: -np.exp(-eta)}, ValueError, "log_p is not the logarithm"),
        ({"name": "other", "third": lambda self, eta: np.sinh(eta)}, ValueError, "third is not finite at eta"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_what_does_not_keep_the_contract_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        register(dataclass(frozen=True)(type("Other", (Logistic,), changes))())
    with pytest.raises(TypeError, match=r"'probit' is no Likelihood; derive its class"):
        register("probit")
    assert list(LIKELIHOODS) == ["logistic", "probit"]


DATA = make_rows()
X, Y = DATA.X, DATA.y
AT = np.zeros(3)
DOORS = {
    "find_map": lambda link: bc.find_map(DATA, link),
    "find_mle": lambda link: bc.find_mle(DATA, link),
    "mala": lambda link: bc.sample(DATA, link, sampler="mala", progressbar=False),
    "nuts": lambda link: bc.sample(DATA, link, sampler="nuts", progressbar=False),
    "evidence": lambda link: bc.log_evidence(DATA, likelihood=link),
    "full data": lambda link: bc.full_data(X, Y, likelihood=link, progressbar=False),
    "coreset": lambda link: bc.build_coreset(X, Y, likelihood=link, size=20, progressbar=False),
    "stream": lambda link: bc.stream(size=20, likelihood=link),
    "model": lambda link: regression_model(DATA, link),
    "density": lambda link: posterior(DATA, link, bc.priors.Normal()),
}
COMPILED = {
    "terms": lambda link: likelihood_terms(AT, DATA, link),
    "draws": lambda link: log_likelihoods(np.zeros((2, 3)), DATA, link),
    "scores": lambda link: LaplaceApproximation(link, AT, np.eye(3)).scores(DATA),
}


@pytest.mark.parametrize("door", DOORS)
def test_an_unknown_name_raises_everywhere(door):
    with pytest.raises(ValueError, match=r"likelihood='cauchit' is unknown; choose one of 'logistic', 'probit'"):
        DOORS[door]("cauchit")


@pytest.mark.parametrize("door", [*DOORS, *COMPILED])
def test_an_unregistered_likelihood_raises_everywhere(door):
    with pytest.raises(TypeError, match=r"likelihood=Cauchit\(\) is not registered; call .*register"):
        {**DOORS, **COMPILED}[door](CAUCHIT)
    assert check_likelihood(Logistic()).name == "logistic"
