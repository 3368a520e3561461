"""What a sampler declares, and what `ChainSampler` makes of it."""

import re

import numpy as np
import pytest

import bayescore as bc
from bayescore.samplers.method import ChainSampler, Option, Prepared, augmentation, thin_option
from bayescore.samplers.sample import sample
from bayescore.types import WeightedData
from bayescore.validation import check_positive

SAMPLER = ChainSampler(
    name="counting",
    about="counts",
    options={"thin": thin_option(3), "width": Option(2.0, check_positive, "how wide")},
    prepare=lambda request: Prepared((), np.zeros((request.chains, request.data.n_features))),
    advance=None,
)


def test_options_are_checked_and_the_rest_are_defaults():
    assert SAMPLER.checked_options({}) == {"thin": 3, "width": 2.0}
    assert SAMPLER.checked_options({"width": 1}) == {"thin": 3, "width": 1.0}
    for given, error, message in (
        ({"width": -1}, ValueError, "width=-1 must be positive"),
        ({"thin": 0}, ValueError, "thin=0 must be at least 1"),
        ({"step": 1}, TypeError, "'step' is not an option of sampler='counting', which takes thin, width"),
    ):
        with pytest.raises(error, match=re.escape(message)):
            SAMPLER.checked_options(given)
    assert SAMPLER.takes == "`thin`, transitions for each draw kept (default 3); `width`, how wide (default 2.0)"


def test_a_sampler_by_augmentation_is_handed_signed_rows_and_the_prior_at_zero(monkeypatch):
    given = {}

    def prepare(Z, weights, terms, shift):
        given.update(Z=Z, weights=weights, terms=terms, shift=shift)
        return ()

    def advance(rng, theta, tuning, arguments, segment):
        draws, values, acceptance = segment[:3]
        draws[:], values[:], acceptance[:] = rng.standard_normal(draws.shape), 0.0, 1.0
        return draws[-1], tuning

    made = augmentation("new", "a new one", "logistic", prepare, advance)
    assert (made.families, made.needs) == (("logistic",), ("gaussian",))
    monkeypatch.setitem(__import__("bayescore.samplers.sample", fromlist=["x"]).SAMPLERS, "new", made)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(30) < 0.5, 1, -1).astype(np.int8)
    rows = WeightedData(rng.normal(size=(30, 2)), y, rng.uniform(1, 2, 30), np.arange(30))
    prior = bc.priors.Normal((1.0, -2.0), (0.5, 3.0))
    idata = sample(rows, "logistic", prior, sampler="new", draws=20, tune=0, random_seed=1, progressbar=False)
    assert idata.posterior["beta"].shape == (4, 20, 2)
    np.testing.assert_array_equal(given["Z"], rows.Z)
    np.testing.assert_array_equal(given["weights"], rows.weights)
    assert not len(given["shift"])
    np.testing.assert_allclose(given["terms"].gradient, [1.0 / 0.25, -2.0 / 9.0])  # precision times mean
    np.testing.assert_allclose(given["terms"].precision, np.diag([4.0, 1.0 / 9.0]))
