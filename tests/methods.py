"""The methods of `build_coreset`, each with options for some thousand rows: what tests of all methods share.

A method more is in them once it is registered; `_OWN` has what it needs beside a size.
"""

from bayescore.coresets.methods import METHODS as REGISTERED

_OWN = {
    "merge_reduce": {"size": 32, "leaf_rows": 800},
    "calibrated": {"size": 80},
    "condensed": {"size": 30},
    "auto": {"size": 80},
}
_MORE = {
    "leverage by sketch": {"method": "leverage", "scores": "sketch", "size": 40},
    "merge_reduce by condensed": {"method": "merge_reduce", "reducer": "condensed", **_OWN["merge_reduce"]},
    "merge_reduce by sensitivity": {"method": "merge_reduce", "reducer": "sensitivity", **_OWN["merge_reduce"]},
    "merge_reduce by leverage": {"method": "merge_reduce", "reducer": "leverage", **_OWN["merge_reduce"]},
}
# of rows without groups, which "multilevel" needs
METHODS = {
    name: {"method": name, **({"size": 40} if kind.takes_size else {}), **_OWN.get(name, {})}
    for name, kind in REGISTERED.items()
    if name != "multilevel"
} | _MORE


def options_of(name: str, *, leaf_rows: int, tree_size: int) -> dict[str, object]:
    """Return the options of a case, with leaves and nodes of trees that suit fewer rows."""
    own = METHODS[name]
    return {**own, "leaf_rows": leaf_rows, "size": tree_size} if own["method"] == "merge_reduce" else own


def kind_of(name: str) -> type:
    """Return the class of a case."""
    return REGISTERED[str(METHODS[name]["method"])]
