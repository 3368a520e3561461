import dataclasses

import numpy as np
import pandas as pd
import pytest

from bayescore.diagnostics.results import Level, Verdict
from bayescore.report.tables import agreement, beside_reference, predicted_error
from tests.diagnostics.helpers import certificate


def measured(errors, sd=1.0):
    """What a reference tells, with a Monte Carlo error of 0.02."""
    return pd.DataFrame(
        {
            "feature": ["b", "<script>"],
            "sd": 1.0,
            "reference_sd": sd,
            "mean_error_sd": errors,
            "mean_error_sd_mcse": 0.02,
        }
    )


def test_agreement_is_judged_by_coefficient_in_the_references_unit():
    own = certificate(errors=(0.1, -0.3))
    assert agreement(own, measured([-0.32, 0.11])) is True
    assert agreement(own, measured([-0.15, 0.05], sd=2.0)) is True
    assert agreement(own, measured([0.1, -0.3])) is False  # right sizes, wrong coefficients
    assert agreement(own, measured([-0.3, np.nan])) is False
    assert agreement(dataclasses.replace(own, level=Level.NOT_CERTIFIED), measured([-0.3, 0.1])) is None


@pytest.mark.slow
def test_agreement_is_refused_to_exact_predictions_once_in_a_hundred():
    """The rate is 1%: of 2000 more than 45 in one of 10^6 runs. Control: noise twice as large as stated."""
    rng = np.random.default_rng(0)
    own = certificate(errors=(0.0, 0.0))
    shifts = np.hypot(0.01, 0.02) * rng.normal(size=(2000, 2))
    assert sum(not agreement(own, measured(shift)) for shift in shifts) <= 45
    assert sum(not agreement(own, measured(2.0 * shift)) for shift in shifts) > 45


def test_the_largest_predicted_error_is_the_one_the_text_names():
    own = certificate(errors=(0.1, -0.09))
    own.coordinates["mean_error_sd_mcse"] = [0.01, 0.05]
    assert predicted_error(own) == (0.09, 0.05)


def test_no_row_says_differs_and_certified():
    own = certificate(level="certified")
    shown = beside_reference(own, Verdict(Level.DIFFERS, "Because."))
    assert shown.level == "not certified"
    assert shown.text.startswith("Certified without the reference, which shows a larger error")
    for level in (Level.CLOSE, Level.INDISTINGUISHABLE, Level.TOO_FEW_DRAWS):
        assert beside_reference(own, Verdict(level, "")) is own
    assert beside_reference(certificate(), Verdict(Level.DIFFERS, "")).level == "corrected"
