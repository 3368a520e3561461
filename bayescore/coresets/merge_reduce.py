"""Coresets by merge and reduce: one pass over a source or a stream that grows a tree (`tree`), and its answer.

Merge and reduce: trees of reductions over streams and sources.

Merge and reduce: a coreset of any number of rows in one pass (Bentley and Saxe 1980, Har-Peled and Mazumdar 2004).

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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import ClassVar, Self, cast

import numpy as np

from bayescore.compiled import one_blas_thread
from bayescore.coresets.aggregate import aggregate
from bayescore.coresets.calibrated import TOLERANCE, WEAK
from bayescore.coresets.drift import CarriedError, add_by_anchor, errors_at, mode_error, mode_of, scale_at
from bayescore.coresets.method import (
    DELTA,
    AnchoredReducer,
    BuildInfo,
    BuildResult,
    Method,
    Reducer,
    ReduceRequest,
    ReduceResult,
    check_serves,
    rows_from_arrays,
    rows_to_arrays,
)
from bayescore.coresets.single import REDUCERS
from bayescore.data.coreset import Shortfall, total_shortfall
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.passes import map_pieces, map_stream
from bayescore.data.source import block_rows, recut
from bayescore.data.sources import as_source
from bayescore.families import Family
from bayescore.families.family import check_family
from bayescore.files import Arrays
from bayescore.types import FloatArray, WeightedData, stack
from bayescore.validation import check_choice, check_integer

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
    carried: tuple[CarriedError, ...] = ()  # errors there of calibrations at earlier points (`drift`)
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
            loss = compose_loss(float(np.maximum(left.loss, node.loss)), merged)
            radius = min(left.radius, node.radius, merged.radius)
            missed = [each.shortfall for each in (left, node, merged)]
            errors = *self._errors(left, node, merged), None if anchor is None else total_shortfall(missed, anchor)
            node = Node(level, merged.rows, loss, radius, anchor, *errors)
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
        return reduce_rows(self.reducer, rows, ReduceRequest(self.size, seed, self.family, delta, anchor, share))

    def reduced_leaf(self, index: int, block: WeightedData) -> ReduceResult:
        """Return leaf number `index`, of this tree's generation, reduced."""
        return self._reduce(block, 0, index, self.anchor)

    def _errors(
        self, left: Node, right: Node, merged: ReduceResult
    ) -> tuple[float, tuple[CarriedError, ...], FloatArray | None]:
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
        return share, add_by_anchor(e for part in (left, right) for e in self.errors_at(part, merged.anchor)), lost

    def errors_at(self, node: Node, theta: FloatArray) -> tuple[CarriedError, ...]:
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

        def carried(i: int, k: int) -> CarriedError:
            return CarriedError(*(arrays[f"node{i}_carried{k}_{name}"] for name in _CARRIED))

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


def reduce_rows(reducer: Reducer, rows: WeightedData, request: ReduceRequest) -> ReduceResult:
    """Reduce `rows` to at most `request.size` rows; return all of them if they are no more."""
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


def compose_loss(below: float, result: ReduceResult) -> float:
    """Return the loss of a reduction of rows that have a loss `below`: missed scores add up, 1 + epsilon multiply."""
    return below + result.loss if result.anchor is not None else (1.0 + below) * (1.0 + result.loss) - 1.0


def node_seed(seed: int, level: int, last: int) -> int:
    """Return the seed of the node of a level that ends with leaf number `last`."""
    return int(np.random.default_rng([seed, level, last]).integers(2**62))


def node_delta(level: int, last: int) -> float:
    """Return the node's share of delta: 6 / (pi n)^2 of it for the n-th reduction, so that all add up to delta."""
    n = 2 * last - last.bit_count() + level + 1
    return DELTA * 6.0 / (math.pi * n) ** 2


MAX_LEAF = 1 << 31


NODE_FACTOR = 4  # nodes hold so many times the rows asked for


_TOP = 64  # level of the answer's own reduction, for its random numbers


def leaf_size(size: int, block_rows: int) -> int:
    """Return the rows of a leaf for a coreset of `size` rows: a canonical block, or more where nodes are large."""
    return max(block_rows, 4 * NODE_FACTOR * size)


def _reduce_leaf(tree: Tree, offset: int, step: int, start: int, block: WeightedData) -> ReduceResult | WeightedData:
    """Return a leaf reduced, or the last rows of all as they are, fewer than a leaf."""
    return block if len(block) < step else tree.reduced_leaf(offset + start // step, block)


def grow(dataset: Dataset, tree: Tree, step: int) -> tuple[Tree, WeightedData | None]:
    """Absorb all rows of a source, or of a stream, in leaves of `step` rows; return the rows left over too.

    One pass: leaves are reduced by the source's workers, other nodes here.
    """
    division = dataset.division()
    leaves = iter(()) if division is not None else recut(dataset.blocks(), step)
    rest: WeightedData | None = None

    def results() -> Iterator[tuple[int, None]]:
        nonlocal tree, rest
        n_leaves = count = 1
        while n_leaves == count and rest is None:
            # the leaves of a generation have one anchor
            first, count = tree.n_leaves, max(1, tree.n_leaves)
            # what travels to the workers knows the anchor, and none of the nodes
            work = partial(_reduce_leaf, replace(tree, nodes=()), first if division is None else 0, step)
            reduced = (
                map_stream(islice(leaves, count), work, step, dataset.cores)
                if division is None
                else map_pieces(
                    replace(division, low=first * step, high=(first + count) * step), work, step, dataset.cores
                )
            )
            n_leaves = 0
            for n_rows, leaf in reduced:
                if isinstance(leaf, WeightedData):
                    rest = leaf
                else:
                    tree, n_leaves = tree.absorb(leaf), n_leaves + 1
                yield n_rows, None

    for _ in dataset.tracked(results(), "merge and reduce"):
        pass
    return tree, rest


@dataclass(frozen=True)
class TreeInfo(BuildInfo):
    """How the tree reduced, its leaves, rows of a node, losses by level, and what is known about the answer.

    Anchored reducers give errors, others epsilon and delta if they are known, and the radius of the ball that they hold
    on.
    """

    reducer: str
    leaves: int
    node_size: int
    levels: list[dict[str, float]] | None
    answer: BuildInfo | None = None  # about the last reduction
    mean_error: float | None = None  # of the last reduction and the nodes
    sd_error: float | None = None
    tree_error: float | None = None  # two standard errors of what the nodes miss
    epsilon: float | None = None
    delta: float | None = None
    radius: float | None = None


@dataclass(frozen=True)
class MergeReduce(Method):
    """A tree of reductions: one pass, also of a `stream`; nearly as accurate as "calibrated".

    Parameters
    ----------
    reducer : str or Method
        Method that makes the rows of one node from those of two: {reducers}, or one with its options,
        ``Leverage(scores="sketch")``. ``"calibrated"`` keeps mode and curvature, ``"condensed"`` mean and covariance,
        in as few as two rows a column. The others draw, and the losses of all draws add up.
    leaf_rows : int, optional
        Rows of a leaf; by default those of about 8 MB, but 16 `size` at least.

    Raises
    ------
    TypeError, ValueError
        If an option is of the wrong kind or out of its range, or `reducer` is a method that cannot reduce nodes.

    Notes
    -----
    For a calibrated or condensed reducer ``core.params`` has `mean_error`, the error to expect of a posterior mean in
    sds: that of the last reduction and `tree_error`, two standard errors of what the nodes miss because the mode moved
    after they were reduced. It is right within a factor of 2 or so while it is below 0.3; `sd_error`, at least as large
    as `tree_error`, is mostly too careful. ``core.params["levels"]`` has the loss up to each level of the tree: about
    the whitened score that the weights miss, in posterior sds; for sensitivity the largest epsilon by its theorem, with
    c = 1 and all failures together of probability 0.05, which from 1 on promises nothing.

    Examples
    --------
    >>> import bayescore as bc
    >>> X, y = bc.datasets.probit(5000, [1.0, 0.0], random_state=0)
    >>> core = bc.build_coreset(X, y, method="merge_reduce", leaf_rows=1000, size=60, random_state=1, progressbar=False)
    >>> core.method, core.params["leaves"]
    ('merge_reduce', 5)
    """

    reducer: str | Method = "calibrated"
    leaf_rows: int | None = None

    name: ClassVar[str] = "merge_reduce"
    one_pass: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.reducer, Method):
            check_choice(self.reducer, "reducer", REDUCERS)
        elif not isinstance(self.reducer, Reducer):
            fit = " or ".join(kind.__name__ for kind in REDUCERS.values())
            raise ValueError(f"reducer={self.reducer!r} cannot reduce nodes; give {fit}")
        for name in self.method.size_options:
            if (value := getattr(self.method, name)) is not None:
                raise ValueError(f"reducer={self.method.described}: nodes have a size; leave {name}={value} out")
        if self.leaf_rows is not None:
            check_integer(self.leaf_rows, "leaf_rows", low=1, high=MAX_LEAF)

    @property
    def method(self) -> Method:
        """The method of the nodes, a `Reducer`."""
        return self.reducer if isinstance(self.reducer, Method) else REDUCERS[self.reducer]()

    def named(self, design: Design) -> Self:
        """Return the method, that of the nodes made for the columns of a design."""
        return replace(self, reducer=self.reducer.named(design)) if isinstance(self.reducer, Method) else self

    @property
    def needs_overlap(self) -> bool:
        """Whether the method of the nodes has a guarantee that separable labels void."""
        return self.method.needs_overlap

    @property
    def about_weak_mode(self) -> bool:
        """Whether nodes are condensed about a mode under the default prior."""
        return isinstance(self.method, AnchoredReducer) and self.method.mode_prior() is WEAK

    def check(self, size: int | None, family: str) -> None:
        """Raise unless the method of the nodes serves the likelihood."""
        super().check(size, family)
        check_serves(self.method, family, REDUCERS, "reducer")

    def stream_block(self, size: int, n_features: int) -> int:
        """Return the rows of a leaf."""
        return self.leaf_rows or leaf_size(size, block_rows(n_features))

    def begin(self, size: int, design: Design, seed: int, family: str) -> "TreeState":
        """Return the tree before the first row."""
        return TreeState(self, size, self.empty(size, len(design.names), seed, family))

    def empty(self, size: int, n_features: int, seed: int, family: str) -> Tree:
        """Return the tree before the first row, for a coreset of `size` rows."""
        reducer = cast(Reducer, self.method)
        reducer.check_size(size, n_features)
        if isinstance(reducer, AnchoredReducer):
            _ = reducer.mode_prior()  # raises if priors go by names that a stream does not know
        return Tree(reducer, NODE_FACTOR * size, family, seed)

    def build(self, dataset: Dataset, size: int | None, seed: int, family: Family) -> BuildResult[TreeInfo]:
        """Grow a tree in one pass, and reduce its nodes to one."""
        draws = self.draws(dataset, size)
        tree = self.empty(draws, dataset.n_features, seed, family.name)
        step = leaf_size(draws, dataset.block_rows) if self.leaf_rows is None else self.leaf_rows
        with one_blas_thread():
            tree, rest = grow(dataset, tree, step)
            return self.answer(tree, rest, draws)

    def answer(self, tree: Tree, rest: WeightedData | None, size: int) -> BuildResult[TreeInfo]:
        """Return a coreset of `size` rows of all leaves so far and the rows left over."""
        rows = stack([*(node.rows for node in tree.nodes), *([] if rest is None else [rest])])
        anchored = isinstance(tree.reducer, AnchoredReducer)
        levels = [
            {"level": level, "residual" if anchored else "epsilon": loss} for level, loss in enumerate(tree.losses)
        ]
        has_losses = not any(map(math.isnan, tree.losses))
        info = TreeInfo(self.method.described, tree.n_leaves, tree.size, levels if has_losses else None)
        if anchored:
            return self._answer_anchored(tree, rows, size, info)
        delta = node_delta(_TOP, tree.n_leaves)
        answer = reduce_rows(tree.reducer, rows, ReduceRequest(size, _answer_seed(tree), tree.family, delta))
        epsilon = compose_loss(max(tree.losses, default=0.0), answer)
        radius = min([answer.radius, *(node.radius for node in tree.nodes)])
        if not math.isnan(epsilon):
            info = replace(info, epsilon=epsilon, delta=DELTA)
        return BuildResult(answer.rows, info if math.isinf(radius) else replace(info, radius=radius), self)

    def _answer_anchored(self, tree: Tree, rows: WeightedData, size: int, info: TreeInfo) -> BuildResult[TreeInfo]:
        """Return a coreset of the rows by the reducer, with its errors and those of the nodes."""
        reducer = cast(AnchoredReducer, tree.reducer)
        # a stream may not know yet which label is +1, and draws from a mirrored posterior are other draws
        sign = rows.y[0] if tree.family.symmetric else 1
        anchor = reducer.build(Dataset(as_source(rows.mirrored(sign))), size, _answer_seed(tree), tree.family)
        mode = mode_of(rows, tree.family, reducer.mode_prior())
        carried = [error for node in tree.nodes for error in tree.errors_at(node, mode.beta)]
        below = mode_error(carried, mode.terms.precision)
        mean_error, sd_error = math.hypot(anchor.info.mean_error, below), max(anchor.info.sd_error, below)
        caution = _caution(mean_error, anchor.info.sd_error, below)
        info = replace(info, answer=anchor.info, mean_error=mean_error, sd_error=sd_error, tree_error=below)
        missed = [None if anchor.shortfall is None else anchor.shortfall.mirrored(sign)]
        whole = total_shortfall([*missed, *(node.shortfall for node in tree.nodes)], mode.beta)
        return BuildResult(anchor.rows.mirrored(sign), info, self, caution, whole)


@dataclass(frozen=True, eq=False)
class TreeState:
    """The tree of a stream."""

    method: MergeReduce
    size: int
    tree: Tree

    def absorbed(self, block: WeightedData) -> Self:
        """Return the state with a leaf more."""
        return replace(self, tree=self.tree.absorb(self.tree.reduced_leaf(self.tree.n_leaves, block)))

    def answer(self, rest: WeightedData | None) -> BuildResult[TreeInfo]:
        """Return the coreset of all leaves and the rows left over."""
        return self.method.answer(self.tree, rest, self.size)

    def to_arrays(self) -> Arrays:
        """Return the tree as arrays."""
        return self.tree.to_arrays()

    def from_arrays(self, arrays: Arrays) -> Self:
        """Return the state of `to_arrays`."""
        return replace(self, tree=self.tree.from_arrays(arrays))


MergeReduce.__doc__ = (MergeReduce.__doc__ or "").replace("{reducers}", ", ".join(map(repr, REDUCERS)))


def _answer_seed(tree: Tree) -> int:
    return node_seed(tree.seed, _TOP, tree.n_leaves)


def _caution(mean_error: float, sd_error: float, below: float) -> str | None:
    """Return a warning if errors of more than twice the tolerance are to be expected, with their cause and remedy."""
    if max(mean_error, sd_error) <= 2.0 * TOLERANCE:
        return None
    if math.isnan(below):
        what, remedy = "what the tree loses cannot be told from so few rows", "give a larger size"
    elif below > 2.0 * TOLERANCE:
        what = f"the mode moved while the rows came (are they sorted?), which costs about {below:.2g} sd"
        remedy = "shuffle the rows, give a larger size, or method='calibrated', which reads the rows more than once"
    else:
        what, remedy = "the size is too small for these data", "give a larger size"
    expected = (
        f"errors of {mean_error:.2g} sd in posterior means and {100.0 * sd_error:.2g}% in sds"
        if max(mean_error, sd_error) < 1.0
        else "a posterior far from that of all rows"
    )
    return f"expect {expected}: {what}; {remedy}"
