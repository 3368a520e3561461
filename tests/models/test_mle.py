"""Maximum likelihood against other solvers and published estimates; separated and rank-deficient data."""

import numpy as np
import pytest
from scipy import optimize
from sklearn.linear_model import LogisticRegression

from bayescore import find_map, find_mle
from bayescore.families.family import FAMILIES
from bayescore.priors import Normal
from bayescore.types import WeightedData
from bayescore.validation import DataError
from tests import published
from tests.conftest import make_rows

LINKS = ["logistic", "probit"]


def data(X, y, weights=None):
    X, n = np.asarray(X, dtype=float), len(y)
    w = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
    return WeightedData(X, np.asarray(y, dtype=np.int8), w, np.arange(n))


def test_logistic_equals_scikit_learn():
    rows = make_rows(400, 5, seed=1)
    theirs = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=10_000)
    theirs.fit(rows.X, rows.y, sample_weight=rows.weights)
    np.testing.assert_allclose(find_mle(rows, "logistic").beta, theirs.coef_[0], rtol=1e-5)


@pytest.mark.parametrize("family", LINKS)
def test_no_other_solver_climbs_higher(family):
    rows = make_rows(400, 5, seed=1)
    family = FAMILIES[family]
    mle = find_mle(rows, family)
    best = optimize.minimize(
        lambda beta: -float(rows.weights @ family.log_p(rows.X @ beta, rows.y)),
        np.zeros(5),
        jac=lambda beta: -(rows.weights * family.score(rows.X @ beta, rows.y)) @ rows.X,
        method="BFGS",
        options={"gtol": 1e-7},
    )
    np.testing.assert_allclose(mle.beta, best.x, rtol=1e-5, atol=1e-7)
    assert mle.terms.value >= -best.fun - 1e-9
    np.testing.assert_allclose(mle.covariance @ mle.terms.precision, np.eye(5), atol=1e-9)
    assert np.abs(mle.terms.gradient * mle.sd).max() < 1e-5


@pytest.mark.parametrize("family", LINKS)
def test_it_is_the_limit_of_the_map_as_the_prior_widens(family):
    rows = make_rows(400, 5, seed=2)
    wide = find_map(rows, family, Normal(0.0, 1e6))
    np.testing.assert_allclose(find_mle(rows, family).beta, wide.beta, rtol=1e-6)


@pytest.mark.parametrize("family", LINKS)
def test_integer_weight_equals_copies_and_labels_may_be_swapped(family):
    rows = make_rows(200, 4, weights=False)
    counts = np.arange(200) % 4 + 1
    weighted, copies = rows.with_weights(counts.astype(float)), rows.take(np.repeat(np.arange(200), counts))
    a, b = find_mle(weighted, family), find_mle(copies, family)
    np.testing.assert_allclose(a.beta, b.beta, rtol=1e-7)
    np.testing.assert_allclose(a.covariance, b.covariance, rtol=1e-7)
    np.testing.assert_allclose(find_mle(data(rows.X, -rows.y, counts), family).beta, -a.beta, rtol=1e-7)


@pytest.mark.parametrize("family", LINKS)
def test_scales_of_columns_do_not_matter(family):
    rows = make_rows(300, 4, seed=3)
    scale = np.array([1.0, 1e7, 1e-7, 1.0])
    plain, scaled = find_mle(rows, family), find_mle(data(rows.X * scale, rows.y, rows.weights), family)
    np.testing.assert_allclose(scaled.beta * scale, plain.beta, rtol=1e-7)
    np.testing.assert_allclose(scaled.sd * scale, plain.sd, rtol=1e-7)


@pytest.mark.parametrize("family", LINKS)
def test_dependent_columns_share_the_fit(family):
    rows = make_rows(300, 3, seed=4)
    plain = find_mle(rows, family)
    twice = find_mle(data(np.column_stack([rows.X, rows.X[:, 1], np.zeros(300)]), rows.y, rows.weights), family)
    np.testing.assert_allclose(twice.beta, [plain.beta[0], plain.beta[1] / 2, plain.beta[2], plain.beta[1] / 2, 0.0])
    assert twice.terms.value == pytest.approx(plain.terms.value, rel=1e-12)
    direction = np.array([0.0, 1.0, 0.0, 1.0, 0.0])  # what the data tell: the sum of the two coefficients
    assert direction @ twice.covariance @ direction == pytest.approx(plain.covariance[1, 1], rel=1e-6)


def separated(name):
    rng = np.random.default_rng(0)
    if name == "margin of 1e-6":
        x = np.concatenate([np.linspace(-1.0, 0.0, 100), np.linspace(1e-6, 1.0, 100)])
        return data(np.column_stack([np.ones(200), x]), np.repeat([-1, 1], 100)), "completely", 200
    X = np.column_stack([np.ones(300), rng.normal(size=(300, 3)), np.arange(300) < 5])
    if name == "one label":
        return data(X, np.ones(300)), "completely", 300
    if name == "plane":
        return data(X, np.where(X[:, 1] - X[:, 2] > 0.3, 1, -1), rng.uniform(0.01, 1e4, 300)), "completely", 300
    y = np.where(rng.random(300) < 0.5, 1, -1)
    y[:5] = 1
    return data(X, y, np.full(300, 1e4 if name == "heavy category" else 1.0)), "quasi-completely", 5


@pytest.mark.parametrize("family", LINKS)
@pytest.mark.parametrize("name", ["plane", "one label", "margin of 1e-6", "category", "heavy category"])
def test_separated_data_get_a_finite_answer_and_a_warning_that_says_how(name, family):
    rows, how, moving = separated(name)
    with pytest.warns(
        UserWarning, match=f"are {how} separated.* does not exist.* {moving} go ever farther.*Use find_map"
    ):
        mode = find_mle(rows, family)
    assert np.isfinite(mode.beta).all()
    assert np.isfinite(mode.covariance).all()
    eta = rows.Z @ mode.beta
    assert (eta > 5.0).sum() == moving
    if how == "completely":
        assert -1e-9 < mode.terms.value < 0.0


@pytest.mark.parametrize("family", LINKS)
def test_one_overlapping_row_is_enough_for_an_estimate(family):
    """No warning (they are errors here), however nearly the labels are separated."""
    x = np.concatenate([np.linspace(-1.0, -0.1, 100), np.linspace(0.1, 1.0, 100), [0.0]])
    for depth in (1e-1, 1e-3, 1e-6):
        x[-1] = -0.1 - depth
        rows = data(np.column_stack([np.ones(201), x]), np.repeat([-1, 1], [100, 101]))
        mode = find_mle(rows, family)
        assert np.abs(rows.X.T @ FAMILIES[family].score(rows.X @ mode.beta, rows.y)).max() < 1e-6


def test_finneys_vasoconstriction():
    """Pregibon (1981), Logistic regression diagnostics, Annals of Statistics 9: logit on log volume and log rate."""
    rows, facts = published.vaso()
    mle = find_mle(rows, "logistic")
    np.testing.assert_allclose(mle.beta, facts["mle"]["beta"], atol=5e-4)
    np.testing.assert_allclose(mle.sd, facts["mle"]["sd"], atol=5e-4)


def test_bliss_beetles():
    """Dobson (1990), An introduction to generalized linear models, with glmlab's digits: 481 beetles in 15 rows."""
    rows, facts = published.beetles()
    assert (len(rows), rows.weights.sum()) == (15, 481)
    mle = find_mle(rows, "logistic")
    np.testing.assert_allclose(mle.beta, facts["mle"]["beta"], atol=1e-6)
    np.testing.assert_allclose(mle.sd, facts["mle"]["sd"], atol=2e-5)  # of glmlab's last step but one


def test_refusals(rows):
    with pytest.raises(DataError, match="all entries of X are 0"):
        find_mle(data(np.zeros((5, 2)), [1, -1, 1, -1, 1]), "logistic")
    with pytest.raises(ValueError, match="family is missing"):
        find_mle(rows)


@pytest.mark.parametrize("family", ["logistic", "probit"])
@pytest.mark.parametrize("seed", range(4))
def test_a_row_far_out_is_not_taken_for_separation(family: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=200)
    y = np.where(rng.random(200) < 1 / (1 + np.exp(-0.5 * x)), 1, -1)
    x[0], y[0] = 1e7, 1
    rows = WeightedData(np.column_stack([np.ones(200), x]), y.astype(np.int8), np.ones(200), np.arange(200))
    found = find_mle(rows, family)  # no warning
    assert np.isfinite(found.beta).all()
