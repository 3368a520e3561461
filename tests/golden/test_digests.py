"""Coresets and draws keep their bits from commit to commit; `cases` says how, and writes the digests."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.golden import cases

KNOWN = json.loads(cases.FILE.read_text())
DIGESTS = KNOWN["digests"].get(cases.environment())  # None where nobody has recorded this environment's rounding

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, used by Dask


def check(core, key):
    """Assert that a coreset is the one recorded: to the last bit where this environment is known."""
    bits, rows, sums = cases.summary(core)
    known = KNOWN["coresets"][key]
    assert rows == known["rows"], f"{key}: other rows than recorded were drawn"
    np.testing.assert_allclose(sums, known["sums"], rtol=cases.ROUNDING, atol=cases.ROUNDING * known["sums"][0])
    if DIGESTS is not None:
        assert bits == DIGESTS[key], f"{key}: the same rows with other bits than recorded here"


@pytest.mark.parametrize(("name", "likelihood", "source"), list(cases.cases()))
def test_coresets_have_their_recorded_digests(name, likelihood, source, tmp_path):
    for seed in cases.SEEDS:
        check(cases.build(name, likelihood, source, seed, tmp_path), f"{name}, {likelihood}, seed {seed}")


def test_another_seed_and_another_weight_are_noticed():
    core = cases.build("uniform", "logistic", "array", cases.SEEDS[0])
    check(core, f"uniform, logistic, seed {cases.SEEDS[0]}")
    with pytest.raises(AssertionError, match="other rows"):
        check(core, f"uniform, logistic, seed {cases.SEEDS[1]}")
    with pytest.raises(AssertionError, match="Not equal"):
        check(replace(core, weights=core.weights * (1.0 + 1e-5)), f"uniform, logistic, seed {cases.SEEDS[0]}")


@pytest.mark.parametrize(
    ("sampler", "likelihood"), [(sampler, link) for sampler, links in cases.SAMPLERS.items() for link in links]
)
def test_samplers_draw_their_recorded_draws(sampler, likelihood):
    key = f"{sampler}, {likelihood}"
    beta = cases.draw(sampler, likelihood)
    if DIGESTS is not None:
        assert cases.digest(beta) == DIGESTS[key]
    elif sampler != "nuts":  # whose draws change with the version of PyMC
        np.testing.assert_allclose(beta, KNOWN["draws"][key], rtol=1e-3)
