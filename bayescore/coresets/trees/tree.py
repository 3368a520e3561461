"""Merge and reduce: a coreset of any number of rows in one pass (Bentley and Saxe 1980, Har-Peled and Mazumdar 2004).

Leaves are blocks of a fixed number of consecutive rows. Each is reduced to a node. Two nodes of one level are merged
and reduced to one of the next, as in a binary counter, so that at most log2(leaves) + 1 nodes are alive. The tree
depends on the order of the rows alone, and each node has random numbers of its own.

An anchored reducer meets the totals of the rows that it replaces at a point, the anchor: the mode of the rows so far,
renewed each time the number of leaves has doubled. All leaves from 2^j to 2^(j+1) - 1 use the mode of the first 2^j and
can be reduced in parallel. Errors then do not grow with the height of the tree: a node misses what is of third order in
the distance from the anchor to the final mode (docs/explanation/merge_and_reduce.md). What its rows miss of score and
curvature at the anchor is known and kept (`Shortfall`); those of nodes add up, moved to one anchor, with an error of
third order in how far they are moved.
"""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bayescore.coresets.aggregate import aggregate
from bayescore.coresets.calibration.drift import Carried, errors_at, joined, mode_of, scale_at
from bayescore.coresets.method import DELTA, AnchoredReducer, Reducer, ReduceRequest, ReduceResult
from bayescore.coresets.stream_state import rows_from_arrays, rows_to_arrays
from bayescore.data.checkpoint import Arrays
from bayescore.data.dataset import Dataset
from bayescore.data.shortfall import Shortfall, total
from bayescore.data.sources import as_source
from bayescore.models.families import Family, check_family
from bayescore.types import FloatArray, WeightedData, stack

_MAX_CARRIED = 64  # errors of one node: one for each level at most
_NUMBERS, _CARRIED = ("loss", "radius", "share"), ("anchor", "at", "covariance")  # fields, as checkpoints have them


@dataclass(frozen=True, eq=False)
class Node:
    """Rows that stand for 2^level leaves; see `ReduceResult` for loss, radius, anchor and lost."""

    level: int
    rows: WeightedData
    loss: float
    radius: float = math.inf
    anchor: FloatArray | None = None
    share: float = 0.0  # variance of all calibrations at the anchor, in units of the node's own; 0 if all were kept
    carried: tuple[Carried, ...] = ()  # errors there of calibrations at earlier points (`drift`)
    lost: FloatArray | None = None  # with that of the nodes below
    shortfall: Shortfall | None = None  # what the rows miss of the leaves, about the anchor; None if nothing


@dataclass(frozen=True, eq=False)
class Tree:
    """All that is kept of the leaves so far."""

    reducer: Reducer
    size: int  # rows of a node, at most
    family_name: str  # a worker elsewhere must have registered it too
    seed: int
    nodes: tuple[Node, ...] = ()  # that of the highest level first
    n_leaves: int = 0
    losses: tuple[float, ...] = ()  # largest loss at each level, including the levels below
    anchor: FloatArray | None = None

    @property
    def family(self) -> Family:
        """The registered family."""
        return check_family(self.family_name)

    def absorb(self, leaf: ReduceResult) -> Self:
        """Return the tree with the next leaf, which `reduced_leaf` reduced at this tree's anchor."""
        nodes, losses, anchor = list(self.nodes), list(self.losses), leaf.anchor
        share = 0.0 if leaf.kept else 1.0
        node = Node(0, leaf.rows, leaf.loss, leaf.radius, leaf.anchor, share, lost=leaf.lost, shortfall=leaf.shortfall)
        while True:
            losses += [0.0] * (node.level + 1 - len(losses))
            losses[node.level] = float(np.maximum(losses[node.level], node.loss))  # NaN stays
            if not nodes or nodes[-1].level > node.level:
                break
            left, level = nodes.pop(), node.level + 1
            # the node of all leaves so far renews the anchor, and is reduced there already
            merged = self._reduce(stack([left.rows, node.rows]), level, self.n_leaves, self.anchor if nodes else None)
            anchor = merged.anchor
            loss = composed(float(np.maximum(left.loss, node.loss)), merged)
            radius = min(left.radius, node.radius, merged.radius)
            missed = [each.shortfall for each in (left, node, merged)]
            found = *self._errors(left, node, merged), None if anchor is None else total(missed, anchor)
            node = Node(level, merged.rows, loss, radius, anchor, *found)
        return replace(
            self,
            nodes=(*nodes, node),
            n_leaves=self.n_leaves + 1,
            losses=tuple(losses),
            anchor=self.anchor if nodes else anchor,
        )

    def _reduce(self, rows: WeightedData, level: int, last: int, anchor: FloatArray | None) -> ReduceResult:
        # the anchor is the mode of the largest power of two of the leaves so far
        share = 1.0 if anchor is None else 2.0 ** (level + 1 - self.n_leaves.bit_length())
        seed, delta = node_seed(self.seed, level, last), node_delta(level, last)
        return reduced(self.reducer, rows, ReduceRequest(self.size, seed, self.family, delta, anchor, share))

    def reduced_leaf(self, index: int, block: WeightedData) -> ReduceResult:
        """Return leaf number `index`, of this tree's generation, reduced."""
        return self._reduce(block, 0, index, self.anchor)

    def _errors(
        self, left: Node, right: Node, merged: ReduceResult
    ) -> tuple[float, tuple[Carried, ...], FloatArray | None]:
        """Return share, carried errors and `lost` of the node merged of two."""
        if merged.anchor is None:
            return 0.0, (), None
        at = merged.anchor.tobytes()
        same = [part for part in (left, right) if part.anchor is not None and part.anchor.tobytes() == at]
        shares = sum(part.share for part in same)
        share = 0.5 * shares if merged.kept else 1.0 + 0.25 * shares
        # what pseudo-rows lose is no chance: of two nodes alike it is twice that of one, as their remainder is
        parts = [0.5 * len(same) * part.lost for part in same if part.lost is not None]
        parts += [] if merged.lost is None else [merged.lost]
        lost = sum(parts[1:], parts[0]) if parts else None
        return share, joined(e for part in (left, right) for e in self.errors_at(part, merged.anchor)), lost

    def errors_at(self, node: Node, theta: FloatArray) -> tuple[Carried, ...]:
        """Return the errors of an anchored node's score at theta."""
        reducer, family = self.reducer, self.family
        if not isinstance(reducer, AnchoredReducer) or node.anchor is None or (node.share == 0.0 and not node.carried):
            return ()
        scale = scale_at(node.rows, theta, family, reducer.mode_prior())[0].factor
        missed = reducer.score_error(node.rows, family, node.lost)
        return errors_at(theta, node.anchor, node.share, node.carried, missed=missed, scale=scale)

    def to_arrays(self) -> Arrays:
        """Return nodes, losses and anchor, for checkpoints of streams."""
        arrays = {"n_leaves": np.array(self.n_leaves), "losses": np.array(self.losses)}
        arrays["level"] = np.array([node.level for node in self.nodes], dtype=np.int64)
        for name in _NUMBERS:
            arrays[name] = np.array([getattr(node, name) for node in self.nodes])
        if self.anchor is not None:
            arrays["anchor"] = self.anchor
        for i, node in enumerate(self.nodes):
            arrays |= rows_to_arrays(f"node{i}", node.rows)
            if node.anchor is not None:
                arrays[f"node{i}_anchor"] = node.anchor
            if node.lost is not None:
                arrays[f"node{i}_lost"] = node.lost
            if node.shortfall is not None:
                arrays[f"node{i}_shortfall"] = node.shortfall.to_array()
            for k, error in enumerate(node.carried):
                arrays |= {f"node{i}_carried{k}_{name}": getattr(error, name) for name in _CARRIED}
        return arrays

    def from_arrays(self, arrays: Arrays) -> Self:
        """Return the tree of `to_arrays`, given that before the first leaf."""

        def carried(i: int, k: int) -> Carried:
            return Carried(*(arrays[f"node{i}_carried{k}_{name}"] for name in _CARRIED))

        def missed(i: int) -> Shortfall | None:
            numbers = arrays.get(f"node{i}_shortfall")
            return None if numbers is None else Shortfall.from_array(numbers, arrays[f"node{i}_X"].shape[1])

        about = zip(*(arrays[name].tolist() for name in ("level", *_NUMBERS)), strict=True)
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
                missed(i),
            )
            for i, (level, loss, radius, share) in enumerate(about)
        )
        losses, anchor = tuple(arrays["losses"].tolist()), arrays.get("anchor")
        return replace(self, nodes=nodes, n_leaves=int(arrays["n_leaves"]), losses=losses, anchor=anchor)


def reduced(reducer: Reducer, rows: WeightedData, request: ReduceRequest) -> ReduceResult:
    """Return at most `request.size` rows in place of `rows`; all of them, if there are no more."""
    # identical rows are one with their weights: nothing is lost, and the rest can be told apart
    few = max(request.size, len(rows) // 4)
    if len(rows) > request.size and (merged := aggregate(Dataset(as_source(rows)), few)) is not None:
        rows = merged
    if len(rows) > request.size:
        return reducer.reduce(rows, request)
    anchor = request.anchor
    if anchor is None and isinstance(reducer, AnchoredReducer):
        anchor = mode_of(rows, request.family, reducer.mode_prior()).beta
    return ReduceResult(rows, 0.0, anchor=anchor, kept=True)


def composed(below: float, result: ReduceResult) -> float:
    """Return the loss of a reduction of rows that have a loss `below`: missed scores add up, 1 + epsilon multiply."""
    return below + result.loss if result.anchor is not None else (1.0 + below) * (1.0 + result.loss) - 1.0


def node_seed(seed: int, level: int, last: int) -> int:
    """Return the seed of the node of a level that ends with leaf number `last`."""
    return int(np.random.default_rng([seed, level, last]).integers(2**62))


def node_delta(level: int, last: int) -> float:
    """Return the node's share of delta: 6 / (pi n)^2 of it for the n-th reduction, so that all add up to delta."""
    n = 2 * last - last.bit_count() + level + 1
    return DELTA * 6.0 / (math.pi * n) ** 2
