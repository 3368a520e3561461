"""A kind of data that bayescore does not know, as somebody would add it: NumPy's .npz files with X and y."""

from pathlib import Path
from typing import Any

import numpy as np

from bayescore.data.sources import Kind
from bayescore.data.sources.array import array_source
from bayescore.types import Source
from bayescore.validation import check_alone


def npz_source(data: Path, y: Any, label: str | None, weights: Any, selection: Any) -> Source:
    """Return the rows of an .npz file, whose arrays are X, y and perhaps weights."""
    check_alone("an .npz file", y=y, label=label, weights=weights)
    with np.load(data) as found:
        return array_source(found["X"], found["y"], None, found.get("weights"))


NPZ = Kind(lambda data: isinstance(data, Path) and data.suffix == ".npz", npz_source)
