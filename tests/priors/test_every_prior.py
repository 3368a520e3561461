"""One contract for every prior: NumPy, compiled code, PyTensor and SciPy agree, and one from outside takes one file."""

import json
import pickle
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy import stats

import bayescore as bc
from bayescore.cli import parse_prior
from bayescore.models.posterior import prior_part, prior_terms
from bayescore.numerics.chains import ess, mcse_mean
from bayescore.priors import (
    Cauchy,
    Horseshoe,
    Independent,
    Laplace,
    MultivariateNormal,
    Normal,
    SpikeAndSlab,
    StudentT,
    register,
)
from bayescore.priors.by_name import ByName, prior_from_dict, prior_of
from bayescore.priors.prior import PRIORS, check_prior
from tests.conftest import make_rows
from tests.priors.logistic_prior import LogisticPrior

NAMES = ("Intercept", "age", "size", "device[phone]", "device[tablet]")
D = len(NAMES)
COVARIANCE = np.eye(D) + 0.5
FOUR = (0, 1, 2, 3, 4), (1, 2, 3, 4, 5)
NAMED = {
    "Intercept": StudentT(3, 0.5, 2.5),
    "age": Normal(0.0, 0.1),
    "size": SpikeAndSlab(0.05, 2.0, 0.3),
    "device": Laplace(0.2, 0.7),
}


@pytest.fixture(autouse=True, scope="module")
def _logistic_prior():
    assert bc.sample.__doc__  # which names the priors known when it is first imported
    register(LogisticPrior)
    yield
    del PRIORS["LogisticPrior"]


def mixture(spike, slab, inclusion):
    def logpdf(b):
        off, on = (
            np.log1p(-inclusion) + stats.norm(0, spike).logpdf(b),
            np.log(inclusion) + stats.norm(0, slab).logpdf(b),
        )
        return np.logaddexp(off, on)

    return logpdf


def named(b):
    each = [stats.t(3, 0.5, 2.5).logpdf, stats.norm(0, 0.1).logpdf, mixture(0.05, 2.0, 0.3)]
    each += [stats.laplace(0.2, 0.7).logpdf] * 2
    return np.stack([own(b[..., d]) for d, own in enumerate(each)], axis=-1)


EVERY = {  # log densities by SciPy, of each coefficient or of all
    Normal(*FOUR): stats.norm(*FOUR).logpdf,
    MultivariateNormal(FOUR[0], COVARIANCE): stats.multivariate_normal(FOUR[0], COVARIANCE).logpdf,
    StudentT(FOUR[1], 0.1, 2.5): stats.t(FOUR[1], 0.1, 2.5).logpdf,
    Cauchy(0, (10, 2.5, 2.5, 2.5, 1)): stats.cauchy(0, (10, 2.5, 2.5, 2.5, 1)).logpdf,
    Laplace(0.2, 0.7): stats.laplace(0.2, 0.7).logpdf,
    SpikeAndSlab(0.05, 2.0, 0.3): mixture(0.05, 2.0, 0.3),
    LogisticPrior(0.5, 2.0): stats.logistic(0.5, 2.0).logpdf,
    prior_of(NAMED, NAMES): named,
    ByName((("age", LogisticPrior(0.5, 2.0)), ("*", Cauchy())), (1, 0, 1, 1, 1)): lambda b: np.where(
        np.arange(D) == 1, stats.logistic(0.5, 2.0).logpdf(b), stats.cauchy(0, 2.5).logpdf(b)
    ),
}
PRIOR = pytest.mark.parametrize("prior", EVERY, ids=repr)
AT = np.concatenate([np.random.default_rng(0).normal(size=(6, D)) * 3.0, [[-2.3, 0.04, 0.7, 5.0, 1e-3]]])
H = 1e-5 * np.eye(D)


def test_every_prior_is_here():
    kinds = {type(prior) for prior in EVERY}
    assert {kind for kind in PRIORS.values() if kind.closed_form} <= kinds
    assert [kind for kind in PRIORS.values() if not kind.closed_form] == [Horseshoe]


@PRIOR
def test_numpy_is_the_density_of_scipy(prior):
    expected = EVERY[prior](AT).reshape(len(AT), -1).sum(axis=1)
    np.testing.assert_allclose(prior.log_density(AT), expected, rtol=1e-12)
    np.testing.assert_allclose([prior.log_density(point) for point in AT], expected, rtol=1e-12)


@PRIOR
def test_derivatives_are_derivatives(prior):
    for point in AT:
        slope = [(prior.log_density(point + h) - prior.log_density(point - h)) / 2e-5 for h in H]
        np.testing.assert_allclose(prior.gradient(point), slope, rtol=1e-5, atol=1e-7)
        part = prior_part(point, prior)  # without kinks
        bend = [(prior_part(point - h, prior).gradient - prior_part(point + h, prior).gradient) / 2e-5 for h in H]
        np.testing.assert_allclose(part.precision, bend, rtol=1e-4, atol=1e-5)


@PRIOR
def test_compiled_code_is_numpy(prior):
    for point in AT:
        gradient = np.empty(D)
        assert prior_terms(point, prior.parts(D), gradient) == pytest.approx(float(prior.log_density(point)), rel=1e-13)
        np.testing.assert_allclose(gradient, prior.gradient(point), rtol=1e-12)


@PRIOR
def test_pytensor_is_numpy(prior):
    with pytensor.config.change_flags(mode="FAST_COMPILE"), pm.Model(coords={"feature": NAMES}) as model:
        assert prior.variable().name == "beta"
        logp, slope = model.compile_logp(), model.compile_dlogp()
    for point in AT:
        assert float(logp({"beta": point})) == pytest.approx(float(prior.log_density(point)), rel=1e-11)
        np.testing.assert_allclose(slope({"beta": point}), prior.gradient(point), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("prior", [*EVERY, Horseshoe(0.5)], ids=repr)
def test_a_prior_is_the_same_through_json_and_pickle(prior):
    assert prior_from_dict(json.loads(json.dumps(prior.to_dict()))) == prior
    copy = pickle.loads(pickle.dumps(prior))
    assert copy == prior
    assert (copy.smooth, copy.gaussian, copy.finite_variance) == (prior.smooth, prior.gaussian, prior.finite_variance)


@PRIOR
def test_a_prior_of_one_mode_covers_every_prior(prior):
    assert prior.covering().unimodal
    wide = np.full(D, 30.0)
    assert prior.covering().log_density(wide) >= prior.log_density(wide) - D


def test_facts_that_samplers_ask_for():
    facts = {prior: (prior.smooth, prior.gaussian, prior.finite_variance) for prior in (*EVERY, Horseshoe())}
    assert [type(prior).__name__ for prior, (smooth, _, _) in facts.items() if not smooth] == [
        "Laplace",
        "SpikeAndSlab",
        "ByName",
        "Horseshoe",
    ]
    assert [type(prior).__name__ for prior, (_, gaussian, _) in facts.items() if gaussian] == [
        "Normal",
        "MultivariateNormal",
    ]
    assert prior_of({"age": Normal(0, 1)}, NAMES).gaussian
    assert StudentT(2.5).finite_variance
    assert not StudentT((3, 2)).finite_variance
    assert not prior_of({"age": Cauchy()}, NAMES).finite_variance


@pytest.mark.essential("that a prior from outside is compiled for samplers")
@pytest.mark.statistical(rate=1e-6)
def test_a_prior_from_one_file_is_sampled():
    """By the mean of one coefficient that 60 rows hardly inform, against quadrature: 5.5 standard errors, 4e-8.

    The control is a normal prior of the same sd.
    """
    data = make_rows(weights=False)
    column = data.take(slice(0, 6)).with_weights(np.full(6, 0.5))
    column = type(column)(column.X[:, :1], column.y, column.weights, column.index)
    prior, grid = LogisticPrior(3.0, 1.0), np.linspace(-30.0, 40.0, 20_001)
    log_p = stats.logistic(3.0, 1.0).logpdf(grid) - np.logaddexp(0.0, -grid[:, None] * column.Z[:, 0]) @ column.weights
    p = np.exp(log_p - log_p.max())
    truth = float(p @ grid / p.sum())

    def off(prior):
        idata = bc.sample(column, "logistic", prior, sampler="mala", draws=4000, random_seed=1, progressbar=False)
        beta = idata.posterior["beta"].values
        assert ess(beta, "mean").min() > 1000
        return float(np.abs(beta.mean(axis=(0, 1)) - truth)[0] / mcse_mean(beta)[0])

    assert off(prior) < 5.5
    assert off(Normal(3.0, np.pi / np.sqrt(3.0) / 3.0)) > 5.5


def test_a_prior_from_one_file_is_everywhere():
    assert parse_prior("logistic_prior(0, 2)") == LogisticPrior(0.0, 2.0)
    assert bc.find_map(make_rows(), "logistic", LogisticPrior()).decrement < 1e-6
    assert bc.log_evidence(make_rows(), family="logistic", prior=LogisticPrior(), random_state=1).se < 0.1
    model = bc.CoresetLogisticRegression(prior=LogisticPrior())
    assert model.set_params(prior__s=2.0).prior == LogisticPrior(0.0, 2.0)


def test_what_does_not_keep_the_contract_is_refused():
    @dataclass(frozen=True)
    class Normal(LogisticPrior):
        pass

    class Thawed(Independent):
        pass

    @dataclass(frozen=True)
    class Bare(Independent):
        each = staticmethod(lambda x, parameters: x)

    @dataclass(frozen=True)
    class Unknown(LogisticPrior):
        pass

    with pytest.raises(ValueError, match=r"prior Normal is registered already, as .*choose another name"):
        register(Normal)
    with pytest.raises(
        TypeError, match=r"prior Thawed is not a frozen dataclass; decorate it with @dataclass\(frozen=True\)"
    ):
        register(Thawed)
    with pytest.raises(TypeError, match="prior Bare lacks the compiled function each"):
        register(Bare)
    with pytest.raises(TypeError, match=r"kind='normal' is not a class of priors; derive it from"):
        register("normal")
    with pytest.raises(
        TypeError, match=r"prior=.*Unknown\(.*\) is not registered; call bayescore.priors.register\(Unknown\)"
    ):
        check_prior(Unknown())
    assert [*PRIORS] == [
        "Normal", "MultivariateNormal", "StudentT", "Cauchy", "Laplace", "Horseshoe", "SpikeAndSlab", "LogisticPrior"
    ]  # fmt: skip
