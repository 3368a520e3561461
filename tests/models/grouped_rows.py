"""Rows in groups, and their marginal posterior by brute force, for tests of multilevel models."""

import numpy as np
from scipy import special

from bayescore.families.family import check_family
from bayescore.priors import Normal
from bayescore.priors.groups import HalfStudentT
from bayescore.types import WeightedData

PRIORS = (Normal(0.0, 4.0), HalfStudentT(3.0, 2.5))


def grouped(n=3000, n_groups=40, family="logistic", *, seed=0, intercept=-0.5, sigma=1.0, n_features=3):
    """Return rows of groups of unlike size, one covariate of which varies between groups too, and the effects."""
    rng = np.random.default_rng(seed)
    share = rng.lognormal(0.0, 0.7, n_groups)
    group = np.sort(np.append(np.arange(n_groups), rng.choice(n_groups, n - n_groups, p=share / share.sum())))
    group = rng.permutation(group)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, n_features - 1))])
    X[:, 1] += 0.5 * rng.normal(size=n_groups)[group]
    effects = sigma * rng.normal(size=n_groups)
    eta = X @ np.append(intercept, np.linspace(-0.5, 0.5, n_features - 1)) + effects[group]
    p = check_family(family).mean(eta)
    y = np.where(rng.random(n) < p, 1, -1).astype(np.int8)
    return WeightedData(X, y, np.ones(n), np.arange(n), group=group[:, None].astype(np.int64)), effects


def brute_force(rows, family, beta, log_sigma, n_groups, points=4001):
    """Return the marginal log-likelihood, mean and sd of each effect, by the trapezium rule over each effect."""
    sigma, family = np.exp(log_sigma), check_family(family)
    b = np.linspace(-9.0, 9.0, points) * sigma
    eta, total, moments = rows.X @ beta + (0.0 if rows.offset is None else rows.offset), 0.0, []
    for g in range(n_groups):
        own = rows.group[:, 0] == g
        y, w = rows.y[own, None], rows.weights[own]
        log_f = w @ family.log_p(eta[own, None] + b, y) - 0.5 * (b / sigma) ** 2 - np.log(sigma * np.sqrt(2.0 * np.pi))
        total += special.logsumexp(log_f) + np.log(b[1] - b[0])
        share = special.softmax(log_f)
        mean = share @ b
        moments.append((mean, np.sqrt(share @ (b - mean) ** 2)))
    free = rows.group[:, 0] < 0
    return total + rows.weights[free] @ family.log_p(eta[free], rows.y[free]), *np.array(moments).T
