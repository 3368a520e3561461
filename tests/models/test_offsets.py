"""Known offsets of rows: a column whose coefficient is 1, in every place that forms a linear predictor."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

import bayescore as bc
from bayescore.coresets.calibration import Totals
from bayescore.coresets.drift import score_covariance
from bayescore.coresets.predicted_error import batched_hmc
from bayescore.data.design import append_offset
from bayescore.diagnostics.elpd import Responses, moved_loo
from bayescore.families.family import FAMILIES
from bayescore.models.laplace import Expansion, LaplaceApproximation
from bayescore.models.posterior import WIDE, likelihood_terms, log_likelihoods, posterior, score
from bayescore.report.compare import negative_log_likelihood
from tests.conftest import make_rows

LINKS = pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))


def with_offset(n_features=3, n=60, **options):
    rows = make_rows(n=n, n_features=n_features, **options)
    return replace(rows, offset=np.random.default_rng(1).normal(size=n))


def at(n_features):
    return np.random.default_rng(2).normal(size=n_features) / n_features


def test_rows_keep_their_offsets():
    rows = with_offset()
    assert (
        bc.types.stack([rows.take([2, 5]), rows.take(slice(7, 8))]).offset.tolist() == rows.offset[[2, 5, 7]].tolist()
    )
    np.testing.assert_array_equal(rows.mirrored(-1).offset * rows.mirrored(-1).y, rows.offset * rows.y)
    np.testing.assert_array_equal(append_offset(rows).X[:, -1], rows.offset)
    data = make_rows()
    assert append_offset(data) is data
    with pytest.raises(ValueError, match="read-only"):
        rows.offset[0] = 1.0


@LINKS
@pytest.mark.parametrize("n_features", [3, WIDE])
def test_terms_are_those_of_a_column_with_the_coefficient_1(family, n_features):
    rows, beta = with_offset(n_features, 200), at(n_features)
    found, expected = (
        likelihood_terms(beta, rows, family),
        likelihood_terms(np.append(beta, 1.0), append_offset(rows), family),
    )
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    np.testing.assert_allclose(found.gradient, expected.gradient[:-1], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.precision, expected.precision[:-1, :-1], rtol=1e-10, atol=1e-10)
    without = likelihood_terms(beta, make_rows(n=200, n_features=n_features), family)
    assert abs(without.value - found.value) > 1.0


@LINKS
def test_all_that_evaluates_the_likelihood_adds_them(family):
    """Log densities, scores, remainders and totals at given points, against those of the column."""
    rows, draws = with_offset(), at(3) + 0.2 * np.random.default_rng(3).normal(size=(40, 3))
    wide, longer = append_offset(rows), np.column_stack([draws, np.ones(40)])
    full = log_likelihoods(longer, wide, family)
    np.testing.assert_allclose(log_likelihoods(draws, rows, family), full, rtol=1e-8)
    np.testing.assert_allclose(score(draws, rows, family), score(longer, wide, family)[:, :3], rtol=1e-9)
    target = posterior(rows, family, bc.priors.Normal(0, 1e6))
    value, gradient = target.log_density(draws[0])
    assert value - posterior(rows, family, bc.priors.Normal(0, 1e6)).log_density(draws[1])[0] == pytest.approx(
        full[0] - full[1]
    )
    np.testing.assert_allclose(gradient, score(draws[:1], rows, family)[0], rtol=1e-6)
    part = likelihood_terms(draws[0], rows, family)
    expansion = Expansion(family, draws[0], part, rows, np.ones(len(rows)))
    np.testing.assert_allclose(expansion.at_draws(draws).values, full, rtol=1e-7)
    white = LaplaceApproximation(family, draws[0], np.eye(3))
    meant = Totals.at(white, part, 10_000)
    pull = white.pulls(rows).sum(axis=1)
    sums = meant.shares(rows)._replace(draws=None)
    np.testing.assert_allclose(sums.stacked().sum(axis=1), meant.values(pull).stacked(), rtol=1e-8, atol=1e-8)
    test = negative_log_likelihood(draws[None], rows, family)[0]
    assert test == pytest.approx(negative_log_likelihood(longer[None], wide, family)[0], rel=1e-9)
    with pm.Model() as model:
        bc.weighted_potential("loglik", rows, pm.Flat("beta", shape=3), family)
    assert float(model.compile_logp()({"beta": draws[0]})) == pytest.approx(full[0], rel=1e-9)


@LINKS
def test_modes_and_what_is_drawn_about_them(family):
    rows, prior = with_offset(weights=False, n=300), bc.priors.Normal(0, 4)
    pinned = bc.priors.Normal((0, 0, 0, 1), (4, 4, 4, 1e-7))
    mode, beside = bc.find_map(rows, family.name, prior), bc.find_map(append_offset(rows), family.name, pinned)
    np.testing.assert_allclose(mode.beta, beside.beta[:3], atol=1e-6)
    assert (
        np.abs(bc.find_map(replace(rows, offset=None), family.name, prior).beta - mode.beta).max() > 0.5 * mode.sd.min()
    )
    mle = bc.find_mle(rows, family.name)
    assert np.abs(likelihood_terms(mle.beta, rows, family).gradient).max() < 1e-4
    target = posterior(rows, family, prior)
    draws, values = batched_hmc(target, mode.beta, mode.factor, 4, np.random.SeedSequence(1))
    np.testing.assert_allclose(values, [target.log_density(draw)[0] for draw in draws], rtol=1e-10)


@LINKS
def test_errors_of_nodes_and_rows_left_out_know_them(family):
    rows = with_offset(n=400, weights=False)
    a, b = at(3), at(3) + 0.1
    error = score_covariance(rows, a, b, family, bc.priors.Normal(0, 4))
    assert not np.allclose(
        error, score_covariance(replace(rows, offset=None), a, b, family, bc.priors.Normal(0, 4)), rtol=0.05
    )
    draws = np.random.default_rng(4).normal(size=(500, 3)) * 0.3
    flat = np.zeros(500)

    def density(at):
        return -0.5 * ((at[:, :3] / 0.3) ** 2).sum(axis=1)

    found = moved_loo(Responses(rows.take(slice(0, 1))), draws, flat, family, density)
    eta = rows.with_offset(rows.X @ draws.T)[0]
    w = 1.0 / np.exp(family.log_p(eta, rows.y[0]))
    assert found.value[0] == pytest.approx(np.log(len(w) / w.sum()), abs=0.05)
