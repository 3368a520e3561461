"""Coresets by merge and reduce: one pass over a source or a stream that grows a tree (`tree`), and its answer."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import ClassVar, Self

from bayescore.coresets.calibration.drift import mode_error
from bayescore.coresets.method import (
    DELTA,
    BuildInfo,
    BuildResult,
    Method,
    check_at_least_one,
    check_serves,
)
from bayescore.coresets.reducing import Anchored, ReduceRequest, ReduceResult, Reducing
from bayescore.coresets.single import SINGLE
from bayescore.coresets.trees.reduce import Reducer
from bayescore.coresets.trees.tree import Tree, node_delta, node_seed
from bayescore.coresets.tried_out import TOLERANCE
from bayescore.data.opened import Opened
from bayescore.data.passes.map import map_pieces, map_stream
from bayescore.data.passes.tasks import recut
from bayescore.data.passes.threads import one_blas_thread
from bayescore.types import Likelihood, WeightedData, stack
from bayescore.validation import check_choice, check_integer, warn

REDUCTIONS = {name: method for name, method in SINGLE.items() if issubclass(method, Reducing)}
MAX_LEAF = 1 << 31
NODE_FACTOR = 4  # nodes hold so many times the rows asked for
_TOP = 64  # level of the answer's own reduction, for its random numbers


def leaf_size(size: int, block_rows: int) -> int:
    """Return the rows of a leaf, for a coreset of `size` rows: a canonical block, or more where nodes are large."""
    return max(block_rows, 4 * NODE_FACTOR * size)


def _reduce_leaf(tree: Tree, offset: int, step: int, start: int, block: WeightedData) -> ReduceResult | WeightedData:
    """Return a leaf reduced, or the last rows of all as they are, fewer than a leaf."""
    return block if len(block) < step else tree.reduced_leaf(offset + start // step, block)


def grow(opened: Opened, tree: Tree, step: int) -> tuple[Tree, WeightedData | None]:
    """Absorb all rows of a source, or of a stream, in leaves of `step` rows; return the rows left over too.

    One pass: leaves are reduced by the source's workers, other nodes here.
    """
    division = opened.division()
    leaves = iter(()) if division is not None else recut(opened.blocks(), step)
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
                map_stream(islice(leaves, count), work, step, opened.cores)
                if division is None
                else map_pieces(
                    replace(division, low=first * step, high=(first + count) * step), work, step, opened.cores
                )
            )
            n_leaves = 0
            for n_rows, leaf in reduced:
                if isinstance(leaf, WeightedData):
                    rest = leaf
                else:
                    tree, n_leaves = tree.absorb(leaf), n_leaves + 1
                yield n_rows, None

    for _ in opened.tracked(results(), "merge and reduce"):
        pass
    return tree, rest


@dataclass(frozen=True)
class TreeInfo(BuildInfo):
    """How the tree reduced, its leaves, rows of a node, what was lost at each level, and what the answer is known for.

    Of an anchored tree `answer` has what is known of the last reduction, `mean_error` and `sd_error` are its errors and
    the nodes', of which `tree_error` are two standard errors of what the nodes miss. Other trees have epsilon and
    delta, if they are known, and the radius of the ball that they hold on.
    """

    reduce: str
    leaves: int
    node_size: int
    levels: list[dict[str, float]] | None
    answer: BuildInfo | None = None
    mean_error: float | None = None
    sd_error: float | None = None
    tree_error: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    radius: float | None = None


@dataclass(frozen=True)
class MergeReduce(Method):
    """A tree of reductions, block by block in one pass: nearly as accurate as "calibrated"; see `StreamingCoreset`.

    Parameters
    ----------
    reduce : str or Method
        Method that makes the rows of one node of those of two: any that is fit for it (`Reducing`), {reductions}, or
        one with its options, ``Leverage(scores="sketch")``.
    mu : float, optional
        Bound of the complexity (`mu_complexity`) of every leaf and node, with which "leverage" tells its epsilon.
    leaf_rows : int, optional
        Rows of a leaf; by default those of about 8 MB, but 16 `size` at least.

    Raises
    ------
    TypeError, ValueError
        If an option is of the wrong kind or out of its range,
        or `reduce` is no method that is fit to reduce nodes.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> options = {"intercept": True, "random_state": 1, "progressbar": False}
    >>> core = bc.build_coreset(X, y, method=bc.MergeReduce(leaf_rows=1000), size=60, **options)
    >>> core.method, core.params["leaves"]
    ('merge_reduce', 5)
    """

    reduce: str | Reducing = "calibrated"
    mu: float | None = None
    leaf_rows: int | None = None

    name: ClassVar[str] = "merge_reduce"
    one_pass: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.reduce, Reducing):
            if isinstance(self.reduce, Method):
                fit = " or ".join(kind.__name__ for kind in REDUCTIONS.values())
                raise ValueError(f"reduce={self.reduce!r} is not fit to reduce nodes; give {fit}")
            check_choice(self.reduce, "reduce", REDUCTIONS)
        for name in self.method.size_options:
            if (value := getattr(self.method, name)) is not None:
                raise ValueError(f"reduce={self.method.described}: nodes have a size; leave {name}={value} out")
        if self.mu is not None:
            object.__setattr__(self, "mu", check_at_least_one(self.mu, "mu"))
        if self.leaf_rows is not None:
            check_integer(self.leaf_rows, "leaf_rows", low=1, high=MAX_LEAF)

    @property
    def method(self) -> Reducing:
        """The method of the nodes."""
        return self.reduce if isinstance(self.reduce, Reducing) else REDUCTIONS[self.reduce]()

    def named(self, names: Sequence[str]) -> Self:
        """Return the method, that of the nodes made for columns of these names."""
        return replace(self, reduce=self.reduce.named(names)) if isinstance(self.reduce, Method) else self

    @property
    def needs_overlap(self) -> bool:
        """Whether the method of the nodes has a guarantee that separable labels void."""
        return self.method.needs_overlap

    def check(self, size: int | None, likelihood: str) -> None:
        """Raise unless the method of the nodes serves the likelihood, and mu serves it."""
        super().check(size, likelihood)
        check_serves(self.method, likelihood, REDUCTIONS, "reduce")
        if self.mu is not None and likelihood not in self.method.mu_likelihoods:
            served = [(kind.name, link) for kind in REDUCTIONS.values() for link in kind().mu_likelihoods]
            where = " or ".join(f"reduce={name!r} with likelihood={link!r}" for name, link in served)
            raise ValueError(
                f"mu={self.mu} serves the epsilon of {where}; with reduce={self.method.described!r} and "
                f"likelihood={likelihood!r} leave it out"
            )

    def reducer(self, size: int, likelihood: str) -> Reducer:
        """Return how the nodes of a tree for a coreset of `size` rows are reduced."""
        if isinstance(self.method, Anchored):
            _ = self.method.mode_prior  # which may go by names that a stream does not know
        return Reducer(self.method, NODE_FACTOR * size, likelihood, self.mu)

    def build(self, opened: Opened, size: int | None, seed: int, likelihood: Likelihood) -> BuildResult[TreeInfo]:
        """Grow a tree in one pass, and reduce its nodes to one."""
        draws = self.draws(opened, size)
        self.method.check_nodes(draws, opened.n_features)
        step = leaf_size(draws, opened.block_rows) if self.leaf_rows is None else self.leaf_rows
        with one_blas_thread():
            tree, rest = grow(opened, Tree(self.reducer(draws, likelihood.name), seed), step)
            return self.answer(tree, rest, draws)

    def answer(self, tree: Tree, rest: WeightedData | None, size: int) -> BuildResult[TreeInfo]:
        """Return a coreset of `size` rows of all leaves so far and the rows left over."""
        method = tree.reducer.method
        rows = stack([*(node.rows for node in tree.nodes), *([] if rest is None else [rest])])
        seed = node_seed(tree.seed, _TOP, tree.n_leaves)
        levels = [{"level": level, method.loss: loss} for level, loss in enumerate(tree.losses)]
        known = not any(map(math.isnan, tree.losses))
        delta = node_delta(_TOP, tree.n_leaves)
        info = TreeInfo(method.described, tree.n_leaves, tree.reducer.size, levels if known else None)
        if isinstance(method, Anchored):
            return self._anchored(tree, method, rows, ReduceRequest(size, seed, tree.reducer.link, delta), info)
        own = replace(tree.reducer, size=size)(rows, seed, delta)
        epsilon = method.composed(max(tree.losses, default=0.0), own.loss)
        radius = min([own.radius, *(node.radius for node in tree.nodes)])
        if not math.isnan(epsilon):
            info = replace(info, epsilon=epsilon, delta=DELTA)
        return BuildResult(own.rows, info if math.isinf(radius) else replace(info, radius=radius), self)

    def _anchored(
        self, tree: Tree, method: Anchored, rows: WeightedData, asked: ReduceRequest, info: TreeInfo
    ) -> BuildResult[TreeInfo]:
        """Return the method's own answer, and what is known of its errors and of those of the nodes."""
        # a stream may not know yet which label is +1, and draws from a mirrored posterior are other draws
        sign = rows.y[0]
        own = method.answered(rows.mirrored(sign), asked)
        mode = method.mode(rows, asked.likelihood)
        carried = [error for node in tree.nodes for error in tree.errors_at(node, mode.beta)]
        below = mode_error(carried, mode.terms.precision)
        mean_error = math.hypot(own.mean_error, below)
        _warn_of(mean_error, own.sd_error, below)
        sd_error = max(own.sd_error, below)
        info = replace(info, answer=own.info, mean_error=mean_error, sd_error=sd_error, tree_error=below)
        return BuildResult(own.rows.mirrored(sign), info, self)


MergeReduce.__doc__ = (MergeReduce.__doc__ or "").replace("{reductions}", ", ".join(map(repr, REDUCTIONS)))


def _warn_of(mean_error: float, sd_error: float, below: float) -> None:
    if not max(mean_error, sd_error) <= 2.0 * TOLERANCE:
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
        warn(f"expect {expected}: {what}; {remedy}")
