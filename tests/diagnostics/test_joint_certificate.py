"""Certificates of several group terms, or of slopes that vary."""

import numpy as np
import pytest

from bayescore.data.design import Grouping
from bayescore.diagnostics.certificate.joint import JointDraws
from bayescore.diagnostics.full_weights import FullWeights


@pytest.mark.parametrize("second", [0.0, 1e-249])
def test_one_draw_with_all_the_weight_has_figures_without_warnings(second):
    w = np.zeros(200)
    w[[3, 7]] = 1.0, second
    u, groups = np.random.default_rng(0).normal(size=(200, 4)), (Grouping("g", ("a", "b", "c", "d")),)
    weights = FullWeights(np.zeros(200), w, 0.0)
    found = JointDraws(at=np.arange(200), weights=weights, groups=groups, u=u, labels=np.ones((4, 2))).effects(1.0)
    assert np.isfinite(found.to_numpy()).all()
    assert (found["log_sd_error_mcse"] > 0.4).all()
