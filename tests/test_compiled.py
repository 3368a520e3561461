"""Machine code gives the same bits whether it was compiled by this process or read from the disk."""

import os
import pickle
import subprocess
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest

from bayescore.compiled import at_address, jit

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


def test_an_index_of_types_that_are_no_more_counts_as_empty(tmp_path, monkeypatch):
    """numba unpickles it before it sees that the source file is another: a fit after an upgrade was an error."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def twice(x: float) -> float:
        return 2.0 * x

    assert jit(twice)(1.0) == 2.0
    (index,) = tmp_path.rglob("*.nbi")
    whole = index.read_bytes()
    index.write_bytes(whole[: whole.index(b".") + 1] + b"cbayescore.compiled\nno_such_type\n.")
    assert jit(twice)(1.0) == 2.0
    index.write_bytes(whole[:-7])
    read = jit(twice)
    assert (read(1.0), read.stats.cache_misses) == (2.0, {(numba.float64,): 1})
    read = jit(twice)  # what was compiled anew stands there again
    assert (read(1.0), read.stats.cache_hits) == (2.0, {(numba.float64,): 1})


class Fields(NamedTuple):
    """What a kernel takes by its address."""

    rows: np.ndarray
    nested: tuple[float, int]
    inner: "Inner"


class Inner(NamedTuple):
    """A named tuple in another."""

    scale: float
    places: np.ndarray


@jit
def _read(fields, at):
    return fields.rows[at, 1] * fields.nested[0] + fields.nested[1] + fields.inner.scale * fields.inner.places[at]


def test_kernels_read_the_fields_of_a_tuple_at_its_address():
    rows, places = np.arange(6.0).reshape(3, 2), np.array([7, 8, 9])
    fields = at_address(Fields(rows, (0.5, 3), Inner(10.0, places)))
    assert _read(fields, 2) == 5.0 * 0.5 + 3 + 90.0
    rows[2, 1] = 7.0  # arrays stay the caller's
    assert _read(fields, 2) == 7.0 * 0.5 + 3 + 90.0
    assert _read(fields._replace(nested=(1.0, 0)), 2) == 7.0 + 90.0
    assert _read(pickle.loads(pickle.dumps(fields)), 2) == 7.0 * 0.5 + 3 + 90.0
    assert fields.inner.places is places


@pytest.mark.parametrize("value", [np.float32(1.5), np.int32(2), True, None, "text"])
def test_values_that_are_no_words_of_8_bytes_are_refused(value):
    with pytest.raises(TypeError, match="data of a kernel may be"):
        at_address((np.zeros(2), value))
