"""The certificate of several group terms, part by part."""

import numpy as np
import pytest

from bayescore.diagnostics.term_certificate import _errors
from bayescore.types import Grouping


@pytest.mark.parametrize("second", [0.0, 1e-249])
def test_one_draw_with_all_the_weight_has_figures_without_warnings(second):
    w = np.zeros(200)
    w[[3, 7]] = 1.0, second
    found = _errors(np.random.default_rng(0).normal(size=(200, 4, 1)), Grouping("g", ("a", "b", "c", "d")), w, 1.0)
    assert np.isfinite(found.to_numpy()).all()
    assert (found["log_sd_error_mcse"] > 0.4).all()
