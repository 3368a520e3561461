"""Coresets by merge and reduce: one pass over a source or a stream that grows a tree (`tree`), and its answer."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import ClassVar, Self, cast

from bayescore.coresets.calibration.drift import mode_error, mode_of
from bayescore.coresets.calibration.search import TOLERANCE, WEAK
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
)
from bayescore.coresets.single import REDUCERS
from bayescore.coresets.trees.tree import Tree, composed, node_delta, node_seed, reduced
from bayescore.data.checkpoint import Arrays
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.passes.cutter import block_rows, recut
from bayescore.data.passes.map import map_pieces, map_stream
from bayescore.data.passes.threads import one_blas_thread
from bayescore.data.shortfall import total
from bayescore.data.sources import as_source
from bayescore.models.families import Family
from bayescore.types import WeightedData, stack
from bayescore.validation import check_choice, check_integer

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

    def named(self, names: Sequence[str]) -> Self:
        """Return the method, that of the nodes made for columns of these names."""
        return replace(self, reducer=self.reducer.named(names)) if isinstance(self.reducer, Method) else self

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
        known = not any(map(math.isnan, tree.losses))
        info = TreeInfo(self.method.described, tree.n_leaves, tree.size, levels if known else None)
        if anchored:
            return self._anchored(tree, rows, size, info)
        delta = node_delta(_TOP, tree.n_leaves)
        own = reduced(tree.reducer, rows, ReduceRequest(size, _answer_seed(tree), tree.family, delta))
        epsilon = composed(max(tree.losses, default=0.0), own)
        radius = min([own.radius, *(node.radius for node in tree.nodes)])
        if not math.isnan(epsilon):
            info = replace(info, epsilon=epsilon, delta=DELTA)
        return BuildResult(own.rows, info if math.isinf(radius) else replace(info, radius=radius), self)

    def _anchored(self, tree: Tree, rows: WeightedData, size: int, info: TreeInfo) -> BuildResult[TreeInfo]:
        """Return a coreset of the rows by the reducer, with its errors and those of the nodes."""
        reducer = cast(AnchoredReducer, tree.reducer)
        # a stream may not know yet which label is +1, and draws from a mirrored posterior are other draws
        sign = rows.y[0] if tree.family.symmetric else 1
        own = reducer.build(Dataset(as_source(rows.mirrored(sign))), size, _answer_seed(tree), tree.family)
        mode = mode_of(rows, tree.family, reducer.mode_prior())
        carried = [error for node in tree.nodes for error in tree.errors_at(node, mode.beta)]
        below = mode_error(carried, mode.terms.precision)
        mean_error, sd_error = math.hypot(own.info.mean_error, below), max(own.info.sd_error, below)
        caution = _caution(mean_error, own.info.sd_error, below)
        info = replace(info, answer=own.info, mean_error=mean_error, sd_error=sd_error, tree_error=below)
        missed = [None if own.shortfall is None else own.shortfall.mirrored(sign)]
        whole = total([*missed, *(node.shortfall for node in tree.nodes)], mode.beta)
        return BuildResult(own.rows.mirrored(sign), info, self, caution, whole)


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
