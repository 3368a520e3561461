"""What a coreset's rows miss of score and curvature is known to it, and takes its mode and Hessian to all rows'."""

from dataclasses import replace

import numpy as np
import pytest

import bayescore as bc
from bayescore.families.family import check_family
from bayescore.models.laplace import StaysError, left_over, to_full
from bayescore.models.posterior import likelihood_terms
from bayescore.priors import Laplace, Normal

LOGISTIC = check_family("logistic")


@pytest.fixture(scope="module")
def built():
    """Rows with skewed columns, and so few calibrated ones that their curvature is far off."""
    rng = np.random.default_rng(0)
    X = np.exp(rng.normal(size=(4000, 8))) - 1.6
    y = X[:, 0] - 0.5 * X[:, 1] - 2.0 + rng.logistic(size=4000) > 0
    data = bc.all_rows(X, y, intercept=True, progressbar=False)
    with pytest.warns(UserWarning, match="expect errors"):
        core = bc.build_coreset(X, y, method="calibrated", size=60, intercept=True, random_state=1, progressbar=False)
    return data, core


def test_rows_and_shortfall_have_the_score_and_the_curvature_of_all_rows(built):
    data, core = built
    at = core.shortfall.point
    full, own = likelihood_terms(at, data, LOGISTIC), likelihood_terms(at, core, LOGISTIC)
    np.testing.assert_allclose(own.gradient + core.shortfall.score, full.gradient, atol=1e-9)
    np.testing.assert_allclose(own.precision + core.shortfall.precision, full.precision, atol=1e-9)
    assert np.abs(own.precision / full.precision - 1.0).max() > 0.1


@pytest.mark.parametrize(("prior", "limit"), [(Normal(0, 4), 1e-3), (Normal(0, 1), 0.01), (Normal(0, 0.2), 0.2)])
def test_the_map_ends_at_the_mode_and_the_curvature_of_all_rows_under_any_prior(built, prior, limit):
    """But for a term of third order in how far the build's last point, or the prior, is from the mode."""
    data, core = built
    truth, own = bc.find_map(data, "logistic", prior), bc.find_map(core, "logistic", prior)
    transport = to_full(core, LOGISTIC, prior)

    def off(mode, covariance):
        white = np.linalg.inv(truth.factor)
        return max(np.linalg.norm(white @ (mode - truth.beta)), np.abs(white @ covariance @ white.T - np.eye(9)).max())

    reached = off(transport.end, transport.matrix @ own.covariance @ transport.matrix.T)
    assert reached < limit
    assert reached < 0.5 * off(own.beta, own.covariance)


def test_a_coreset_of_other_rows_or_weights_drops_it(built):
    _, core = built
    assert replace(core, random_state=3).shortfall is not None
    for other in (core.take(slice(1, None)), core.with_weights(2.0 * core.weights), core.mirrored(-1)):
        assert other.shortfall is None
    with pytest.raises(StaysError, match="does not know"):
        to_full(core.with_weights(2.0 * core.weights), LOGISTIC, Normal(0, 4))


def test_what_has_nothing_to_move_stays(built):
    data, core = built
    pseudo = bc.build_coreset(data, method="condensed", random_state=1, progressbar=False)
    reasons = {
        "has all rows": (data, Normal(0, 4)),
        "on average over the posterior": (pseudo, Normal(0, 4)),
        "no curvature in closed form": (core, Laplace(0, 1)),
    }
    for reason, (rows, prior) in reasons.items():
        with pytest.raises(StaysError, match=reason):
            to_full(rows, LOGISTIC, prior)
    flat = replace(core.shortfall, precision=-1e6 * np.eye(9))
    with pytest.raises(StaysError, match="not positive definite"):
        to_full(replace(core, shortfall=flat), LOGISTIC, Normal(0, 4))


def test_little_is_left_of_near_normal_posteriors_and_much_where_draws_lie_far_out(built):
    _, core = built
    transport, mode = to_full(core, LOGISTIC, Normal(0, 4)), bc.find_map(core, "logistic", Normal(0, 4))
    draws = mode.beta + np.random.default_rng(2).normal(size=(500, 9)) @ mode.factor.T
    before, after = left_over(core, LOGISTIC, Normal(0, 4), draws, transport)
    assert after < 0.2 < before
    assert left_over(core, LOGISTIC, Normal(0, 4), 10.0 * (draws - mode.beta) + mode.beta, transport)[1] > 1.0


def test_shortfalls_of_disjoint_data_add_up(built):
    data, _ = built
    half = np.arange(4000) < 2000
    about = {"method": "calibrated", "size": 300, "random_state": 1, "progressbar": False}
    parts = [bc.build_coreset(data.X[rows], data.y[rows], **about) for rows in (half, ~half)]
    union = bc.Coreset.concat(parts)
    truth = bc.find_map(data, "logistic", Normal(0, 4))
    white, raw = np.linalg.inv(truth.factor), bc.find_map(union, "logistic", Normal(0, 4))
    assert np.linalg.norm(white @ (to_full(union, LOGISTIC, Normal(0, 4)).end - truth.beta)) < 0.05
    assert np.linalg.norm(white @ (raw.beta - truth.beta)) < 1.0
    whole = bc.all_rows(data.X, data.y, progressbar=False)
    assert bc.Coreset.concat([parts[0], whole]).shortfall is not None
    assert bc.Coreset.concat([parts[0], whole.take(half)]).shortfall is None
    unknown = bc.build_coreset(whole, method="uniform", size=50, random_state=1, progressbar=False)
    assert bc.Coreset.concat([parts[0], unknown]).shortfall is None


def test_a_coreset_of_a_coreset_misses_what_both_miss(built):
    data, _ = built
    first = bc.build_coreset(data, method="calibrated", size=300, random_state=1, progressbar=False)
    second = bc.build_coreset(first, method="calibrated", size=150, random_state=2, progressbar=False)
    truth = bc.find_map(data, "logistic", Normal(0, 4))
    end = to_full(second, LOGISTIC, Normal(0, 4)).end
    assert np.linalg.norm(np.linalg.inv(truth.factor) @ (end - truth.beta)) < 0.05
    assert second.n_total == 4000
