"""Machine code gives the same bits whether it was compiled by this process or read from the disk."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import hashlib
import numpy as np
from bayescore.coresets.scores import block_factor
from bayescore.families.family import FAMILIES
from bayescore.models.posterior import likelihood_terms
from bayescore.types import WeightedData

rng = np.random.default_rng(0)
rows = WeightedData(rng.normal(size=(1000, 4)), np.ones(1000, np.int8), rng.uniform(0.1, 5.0, 1000), np.arange(1000))
terms = likelihood_terms(np.ones(4), rows, FAMILIES["logistic"])
print(block_factor(rows).tobytes().hex(), terms.precision.tobytes().hex(), terms.value.hex())
"""


@pytest.mark.slow
def test_sums_have_one_order(tmp_path):
    """Sums that the compiler may reorder once had another order in their own code than as part of a caller's."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    fresh, read = (
        subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, check=True).stdout
        for _ in range(2)
    )
    assert list(tmp_path.rglob("*.nbc"))
    assert fresh == read != b""


def test_kernels_travel_by_name():
    """numba's own copies would be compiled anew by each worker that a closure travels to, and never kept on disk."""
    from distributed.protocol import pickle

    from bayescore.models.groups.rows import _add_sums

    def closure() -> object:
        return _add_sums

    assert pickle.loads(pickle.dumps(closure))() is _add_sums
    assert len(pickle.dumps(_add_sums)) < 200  # numba's copy takes thousands of bytes
