"""Trees as arrays, for checkpoints of streams."""

from dataclasses import replace

import numpy as np

from bayescore.coresets.calibration.drift import Carried
from bayescore.coresets.stream_state import rows_from_arrays, rows_to_arrays
from bayescore.coresets.trees.tree import Node, Tree
from bayescore.data.checkpoint import Arrays

_MAX_CARRIED = 64  # errors of one node: one for each level at most


def tree_to_arrays(tree: Tree) -> Arrays:
    """Return nodes, losses and anchor."""
    arrays = {
        "n_leaves": np.array(tree.n_leaves),
        "losses": np.array(tree.losses),
        "level": np.array([node.level for node in tree.nodes], dtype=np.int64),
        "loss": np.array([node.loss for node in tree.nodes]),
        "radius": np.array([node.radius for node in tree.nodes]),
        "share": np.array([node.share for node in tree.nodes]),
    }
    if tree.anchor is not None:
        arrays["anchor"] = tree.anchor
    for i, node in enumerate(tree.nodes):
        arrays |= rows_to_arrays(f"node{i}", node.rows)
        if node.anchor is not None:
            arrays[f"node{i}_anchor"] = node.anchor
        if node.lost is not None:
            arrays[f"node{i}_lost"] = node.lost
        for k, error in enumerate(node.carried):
            own = {"anchor": error.anchor, "at": error.at, "covariance": error.covariance}
            arrays |= {f"node{i}_carried{k}_{name}": array for name, array in own.items()}
    return arrays


def tree_from_arrays(empty: Tree, arrays: Arrays) -> Tree:
    """Return the tree of `tree_to_arrays`, given the one before the first leaf."""

    def carried(i: int, k: int) -> Carried:
        return Carried(*(arrays[f"node{i}_carried{k}_{name}"] for name in ("anchor", "at", "covariance")))

    about = zip(*(arrays[name].tolist() for name in ("level", "loss", "radius", "share")), strict=True)
    nodes = tuple(
        Node(
            level,
            rows_from_arrays(f"node{i}", arrays),
            loss,
            radius,
            arrays.get(f"node{i}_anchor"),
            share,
            tuple(carried(i, k) for k in range(_MAX_CARRIED) if f"node{i}_carried{k}_at" in arrays),
            arrays.get(f"node{i}_lost"),
        )
        for i, (level, loss, radius, share) in enumerate(about)
    )
    losses = tuple(arrays["losses"].tolist())
    return replace(empty, nodes=nodes, n_leaves=int(arrays["n_leaves"]), losses=losses, anchor=arrays.get("anchor"))
