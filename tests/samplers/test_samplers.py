"""Samplers as values: what they declare drives the checks, the messages and the help; one more takes one file."""

import numpy as np
import pytest

import bayescore as bc
from bayescore.cli import parser
from bayescore.families.family import FAMILIES
from bayescore.numerics.chains import ess, mcse_mean
from bayescore.priors.prior import PRIORS
from bayescore.samplers.sample import AUTO, SAMPLERS, default_sampler, fits, sampler_lines
from tests.conftest import make_rows
from tests.samplers.random_walk import RANDOM_WALK

DATA = make_rows(weights=False)


@pytest.fixture
def _random_walk(monkeypatch):
    monkeypatch.setitem(SAMPLERS, "random_walk", RANDOM_WALK)


def draw(sampler, family="probit", **options):
    return bc.sample(DATA, family, sampler=sampler, random_seed=1, progressbar=False, **options)


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-6)
@pytest.mark.usefixtures("_random_walk")
def test_a_sampler_from_one_file_draws_from_the_posterior():
    """Three means within 5.5 standard errors of MALA's: 4e-8 each; the logistic one's must be off."""
    own = draw("random_walk", draws=1000, tune=100, thin=10)
    beta, mala, wrong = (idata.posterior["beta"].values for idata in (own, draw("mala"), draw("mala", "logistic")))
    assert min(ess(beta, "mean").min(), ess(mala, "mean").min()) > 500
    for other, agree in ((mala, True), (wrong, False)):
        gap = np.abs(beta.mean(axis=(0, 1)) - other.mean(axis=(0, 1))) / np.hypot(mcse_mean(beta), mcse_mean(other))
        assert (gap < 5.5).all() == agree
    assert own.posterior.attrs["sampler"] == "random_walk"
    assert own.posterior.attrs["inference_library"] == "bayescore"
    assert 0.1 < float(own.sample_stats["acceptance_rate"].mean()) < 0.6


@pytest.mark.usefixtures("_random_walk")
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"family": "logistic"},
            ValueError,
            "'random_walk' is for the probit family and this one is logistic; use "
            "sampler='polya_gamma', 'langevin', 'mala' or 'nuts'",
        ),
        (
            {"prior": bc.priors.Cauchy()},
            ValueError,
            r"fits the priors Normal, MultivariateNormal, and this one is Cauchy\(.*\): it was tried with normal "
            "priors only; use sampler='langevin', 'mala' or 'nuts'",
        ),
        ({"width": 0}, ValueError, "width=0 must be positive"),
        ({"step": 1}, TypeError, "'step' is not an option of sampler='random_walk', which takes thin, width"),
    ],
)
def test_the_declaration_words_the_errors_and_names_alternatives(options, error, message):
    with pytest.raises(error, match=message):
        draw("random_walk", **options)
    with pytest.raises(ValueError, match=r"is for the logistic family.*use sampler='random_walk', 'gibbs', 'langevin'"):
        draw("polya_gamma")


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_declarations_are_of_things_that_there_are(sampler):
    assert set(sampler.families or ()) <= set(FAMILIES)
    fitted = [kind for kind in PRIORS.values() if sampler.fits_prior(kind)]
    assert fitted or sampler.name == "smooths"  # whose prior is of formulas with s(x), and no class that users make
    assert sampler.because or fitted == list(PRIORS.values())
    assert sampler.checked_options({}) == {name: option.default for name, option in sampler.options.items()}


def test_some_sampler_fits_everything():
    for family in FAMILIES:
        for prior in (bc.priors.Normal(), bc.priors.Laplace(), bc.priors.Horseshoe(), bc.priors.SpikeAndSlab()):
            assert any(fits(sampler, family, prior) for sampler in SAMPLERS.values())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("prior", "options", "expected"),
    [
        (bc.priors.Normal(), {}, "langevin"),
        (bc.priors.Cauchy(), {"ess": 500}, "langevin"),
        (bc.priors.Laplace(), {"thin": 5}, "langevin"),
        (bc.priors.SpikeAndSlab(), {}, "nuts"),
        (bc.priors.Horseshoe(), {}, "nuts"),
        (bc.priors.Normal(), {"target_accept": 0.95}, "nuts"),
        (bc.priors.StudentT(4), {"nuts_sampler": "nutpie", "thin": 2}, "nuts"),
    ],
    ids=str,
)
def test_the_default_is_langevin_where_it_fits(family, prior, options, expected):
    assert default_sampler(DATA, family, prior, options).name == expected


def test_the_default_tells_which_sampler_ran_and_draws_as_it_does():
    quick = {"draws": 20, "tune": 20, "chains": 2}
    idata = bc.sample(DATA, "probit", random_seed=1, progressbar=False, **quick)
    assert idata.posterior.attrs["sampler"] == idata.sample_stats.attrs["sampler"] == "langevin"
    named = draw("langevin", **quick)
    np.testing.assert_array_equal(idata.posterior["beta"], named.posterior["beta"])
    with pytest.raises(ValueError, match="sampler='hmc' is unknown; choose one of 'auto', 'nuts'"):
        draw("hmc")


def test_docstring_and_command_line_name_every_sampler_and_likelihood(capsys):
    assert sampler_lines() in bc.sample.__doc__
    for sampler in SAMPLERS.values():
        assert f'* ``"{sampler.name}"``: {sampler.takes}' in bc.sample.__doc__
        assert all(f"`{name}`, {option.about}" in sampler.takes for name, option in sampler.options.items())
    with pytest.raises(SystemExit):
        parser().parse_args(["sample", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert ", ".join((AUTO, *SAMPLERS)) in text
    assert ", ".join(FAMILIES) in text
