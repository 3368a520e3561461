"""Draws as users have them: what the installed ArviZ keeps them in."""

from collections.abc import Mapping
from typing import Any

from bayescore.compat import as_arviz
from bayescore.compat import inference_data as tree


def inference_data(groups: Mapping[str, Mapping[str, Any]], **names: Any) -> Any:
    """Return groups of arrays by name; see `compat.inference_data`."""
    return as_arviz(tree(groups, **names))
