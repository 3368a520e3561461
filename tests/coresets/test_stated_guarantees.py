"""What the page of methods says of guarantees is what the theorems and the benchmarks' tables say."""

from pathlib import Path

import pytest

from bayescore.coresets.leverage import leverage_size
from bayescore.coresets.sensitivity import sensitivity_epsilon

ROOT = Path(__file__).resolve().parents[2]
PAGE = " ".join((ROOT / "docs" / "how-to" / "choose.md").read_text(encoding="utf-8").split())


def test_sizes_and_epsilons():
    assert f"{leverage_size(10, 0.4999, 0.05, mu=1.0, weight_span=1e6):.1e}" == "1.6e+07"
    assert "1.6e7 draws for epsilon = 0.5 even if mu = 1" in PAGE
    mean = 42.0  # of Binary10, as ``core.params["mean_sensitivity"]`` has it
    assert sensitivity_epsilon(mean, 10, 1000, 0.05) == pytest.approx(1.4, abs=0.05)
    assert "a sensitivity coreset of 1,000 draws has epsilon = 1.4" in PAGE
