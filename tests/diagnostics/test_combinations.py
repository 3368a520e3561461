"""What the certificate says of linear combinations of coefficients."""

from dataclasses import replace

import numpy as np
import pytest

import bayescore as bc
from bayescore.diagnostics.certificate.estimates import DrawFigures, combinations
from bayescore.models.laplace import Transport

PRIOR = bc.priors.Normal(0, 3)


def test_the_worst_combination_is_that_of_a_search_over_directions():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    own, full = root @ root.T + np.eye(3), root.T @ root + 2.0 * np.eye(3)
    transport = Transport.between(np.zeros(3), own, np.array([0.3, -0.2, 0.1]), full)
    draws = rng.multivariate_normal(np.zeros(3), np.linalg.inv(own), size=(4, 50_000))
    mean, sd = combinations(DrawFigures(draws), transport)
    directions = rng.normal(size=(20_000, 3))
    V, before = np.linalg.inv(full), np.linalg.inv(own)
    lengths = np.sqrt(np.einsum("kd,de,ke->k", directions, V, directions))
    shifts = np.abs(directions @ transport.end) / lengths
    ratios = 0.5 * np.log(np.einsum("kd,de,ke->k", directions, before, directions) / lengths**2)
    assert mean.error[0] == pytest.approx(shifts.max(), abs=0.02)
    assert sd.error[0] == pytest.approx(ratios[np.abs(ratios).argmax()], abs=0.02)
    none = combinations(DrawFigures(draws), Transport.between(np.zeros(3), own, np.zeros(3), own))
    assert all(abs(each.error[0]) < 1e-6 for each in none)


@pytest.mark.slow
def test_combinations_that_are_off_are_not_certified_though_every_coefficient_is_right():
    """Rows far out along one direction, to which all coefficients belong, weigh too little.

    Each row has both labels, so that the mode stays where it is.
    """
    rng, D = np.random.default_rng(1), 40
    X, along = np.tile(rng.normal(size=(10_000, D)), (2, 1)), np.ones(D) / np.sqrt(D)
    y = np.arange(len(X)) < len(X) // 2
    data = bc.all_rows(X, y, progressbar=False)
    weights = np.where(np.abs(X @ along) > 1.0, 0.3, 1.325)
    core = replace(data, weights=weights * len(X) / weights.sum(), method="uniform")
    idata = bc.sample(core, "logistic", PRIOR, random_seed=0, progressbar=False)
    certificate = bc.certify(idata, core, X, y, progressbar=False)
    assert certificate.coordinates["sd_error"].abs().max() < 0.1
    assert certificate.level == "corrected"
    assert "the sd of a linear combination of coefficients is off by 4" in certificate.text
    mode = bc.find_map(data, "logistic", PRIOR)
    found = [each.posterior["beta"].values.reshape(-1, D) @ along for each in (idata, certificate.idata)]
    raw, corrected = (each.std() / np.sqrt(along @ mode.covariance @ along) for each in found)
    assert raw > 1.3
    assert abs(corrected - 1.0) < 0.1  # 1,000 effective draws tell an sd within 2%
