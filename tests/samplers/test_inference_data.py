"""Posteriors out of InferenceData, for predictions, files and diagnostics alike."""

import json

import numpy as np
import pytest

from bayescore.compat import is_inference_data
from bayescore.data.design import Design
from bayescore.families.family import FAMILIES
from bayescore.limits import MIN_DRAWS
from bayescore.samplers.posterior import read_posterior as read
from bayescore.validation import DataError
from tests.arviz_draws import inference_data
from tests.known_posteriors import make_posterior


def test_all_that_is_known_of_a_posterior_is_read():
    idata = make_posterior(3, coreset={"method": "uniform", "size": 4})
    found = read(idata, "it")
    np.testing.assert_array_equal(found.draws, idata.posterior["beta"].values)
    assert (found.name, found.features, found.divergences) == ("it", ("a", "b", "c"), 0)
    assert found.coreset == {"method": "uniform", "size": 4}
    np.testing.assert_array_equal(found.weights, [1, 2, 3, 4])
    assert found.attrs["random_seed"] == "3"
    assert is_inference_data(idata)
    assert not is_inference_data({"it": idata})


def test_foreign_posteriors_need_beta_only():
    found = read(inference_data({"posterior": {"beta": make_posterior(3).posterior["beta"].to_numpy()}}), "it")
    assert found.features == ("0", "1", "2")
    assert found.divergences is found.acceptance_rate is found.weights is None
    assert found.coreset == {}


def test_dims_may_come_in_any_order_but_must_be_three():
    idata, plain = make_posterior(3), read(make_posterior(3), "it")
    for dims in (("draw", "chain", "feature"), ("feature", "draw", "chain")):
        idata.posterior["beta"] = idata.posterior["beta"].transpose(*dims)
        found = read(idata, "it")
        np.testing.assert_array_equal(found.draws, plain.draws)
        assert found.features == plain.features
    idata.posterior["beta"] = idata.posterior["beta"].isel(chain=0, drop=True)
    with pytest.raises(DataError, match=r"it: 'beta' has dims .*; they must be chain, draw and feature"):
        read(idata, "it")


def test_thinned_draws_are_spread_over_each_chain():
    found = read(make_posterior(3, draws=100), "it")
    kept = found.thinned(20)
    np.testing.assert_array_equal(kept, found.draws[:, [0, 25, 50, 74, 99]])
    np.testing.assert_array_equal(found.thinned(10**6), found.draws)
    assert found.thinned(1).shape == (4, 1, 3)


def test_coordinates_follow_their_names():
    found = read(make_posterior(3), "it")
    np.testing.assert_array_equal(found.aligned(("c", "a", "b")).draws, found.draws[:, :, [2, 0, 1]])
    with pytest.raises(DataError, match="it: 3 features where 2 are expected; it has the extra 'c'"):
        found.aligned(("a", "b"))


def test_too_few_draws_to_judge_are_enough_to_predict():
    short = make_posterior(3, chains=2, draws=MIN_DRAWS - 1)
    with pytest.raises(DataError, match=r"it: 'beta' has shape \(2, 3, 3\); at least 4 draws a chain are needed"):
        read(short, "it")
    assert read(short, "it", min_draws=1).draws.shape == (2, 3, 3)
    with pytest.raises(DataError, match="at least 1 draws"):
        read(short.isel(draw=[]), "it", min_draws=1)


def test_the_likelihood_is_the_registered_one_or_asked_for():
    idata = make_posterior(3)
    assert read(idata, "it").family is FAMILIES["logistic"]
    for attrs in ({}, {"family": "gompit"}):
        idata.posterior.attrs = attrs
        with pytest.raises(DataError, match=r"it does not tell its family; set .* to one of 'logistic', 'probit'"):
            _ = read(idata, "it").family


def test_the_design_is_that_of_the_coreset():
    idata = make_posterior(3)
    assert read(idata, "it").design is None
    design = Design(("a", "b"), intercept=True, center=(1.0, 2.0), scale=(3.0, 4.0))
    idata.posterior.attrs["design"] = json.dumps(design.to_dict())
    assert read(idata, "it").design == design


def test_other_things_are_named():
    with pytest.raises(TypeError, match="it is of type dict; give"):
        read({"posterior": {}}, "it")


BAD_TEXT = ["x", "[]", "[1]", "3", 3, "[" * 100_000]
BAD_DESIGNS = [
    *BAD_TEXT,
    "{}",
    json.dumps(Design(("a", "b")).to_dict()),  # of other columns
    json.dumps({**Design(("a", "b", "c")).to_dict(), "center": [0.0], "scale": [1.0]}),
    json.dumps({**Design(("a", "b", "c")).to_dict(), "center": ["x", "y", "z"], "scale": [1.0, 1.0, 1.0]}),
]


@pytest.mark.parametrize(
    ("attribute", "text"),
    [*(("design", text) for text in BAD_DESIGNS), *(("coreset", text) for text in BAD_TEXT)],
    ids=lambda text: str(text)[:12],
)
def test_damaged_attributes_are_told(attribute, text):
    idata = make_posterior(3)
    idata.posterior.attrs[attribute] = text
    with pytest.raises(
        DataError, match=f"it: the attribute '{attribute}' of its posterior is not what .* sample again"
    ):
        read(idata, "it")


def test_draws_whose_powers_overflow_are_refused():
    idata = make_posterior(3)
    largest = float(np.abs(idata.posterior["beta"]).max())
    idata.posterior["beta"] = idata.posterior["beta"] * (1e200 / largest)
    with pytest.raises(DataError, match=r"it has draws above 1e\+25 in size, whose powers overflow: .* lighter tails"):
        read(idata, "it")
    idata.posterior["beta"] = idata.posterior["beta"] * 0.99e-175
    read(idata, "it")


def test_a_likelihood_that_is_no_text_is_none():
    idata = make_posterior(3)
    idata.posterior.attrs["family"] = [1, 2]
    with pytest.raises(DataError, match="it does not tell its family"):
        _ = read(idata, "it").family
