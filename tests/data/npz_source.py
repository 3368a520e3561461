"""A kind of data that bayescore does not know, as somebody would add it: NumPy's .npz files with X and y."""

from pathlib import Path
from typing import Any

import numpy as np

from bayescore.data.roles import Roles
from bayescore.data.source import Source
from bayescore.data.sources import Kind, array_source


def npz_source(data: Path, roles: Roles, selection: Any) -> Source:
    """Return the rows of an .npz file, whose arrays are X, y and perhaps weights."""
    roles.check_none("an .npz file")
    with np.load(data) as found:
        return array_source(found["X"], Roles(found["y"], weights=found.get("weights")))


NPZ = Kind(lambda data: isinstance(data, Path) and data.suffix == ".npz", npz_source)
