"""Coresets by merge and reduce, of a source or a stream: one pass that grows a tree (`tree`), and its answer."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from bayescore.coresets.calibrated import TOLERANCE, calibrated_coreset
from bayescore.coresets.drift import mode_error
from bayescore.coresets.reduce import Reduced, check_reduction
from bayescore.coresets.tree import DELTA, Tree, node_delta, node_seed
from bayescore.data.opened import Opened
from bayescore.data.passes import map_pieces, map_stream
from bayescore.data.sources import as_source
from bayescore.data.tasks import recut
from bayescore.data.threads import one_blas_thread
from bayescore.models.likelihoods import LIKELIHOODS
from bayescore.types import WeightedData, stack
from bayescore.validation import warn

NODE_FACTOR = 4  # nodes hold so many times the rows asked for
_TOP = 64  # level of the answer's own reduction, for its random numbers


def leaf_size(size: int, block_rows: int) -> int:
    """Return the rows of a leaf, for a coreset of `size` rows: a canonical block, or more where nodes are large."""
    return max(block_rows, 4 * NODE_FACTOR * size)


def _reduce_leaf(tree: Tree, offset: int, step: int, start: int, block: WeightedData) -> Reduced | WeightedData:
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


def tree_coreset(
    opened: Opened,
    size: int,
    seed: int,
    *,
    likelihood: str,
    reduce: str = "calibrated",
    mu: float | None = None,
    leaf_rows: int | None = None,
) -> tuple[WeightedData, dict[str, Any]]:
    """Build a coreset of a source or a stream by merge and reduce, in one pass; see `StreamingCoreset`."""
    step = leaf_size(size, opened.block_rows) if leaf_rows is None else leaf_rows
    with one_blas_thread():
        tree = Tree(check_reduction(reduce, likelihood, NODE_FACTOR * size, mu), seed)
        return answer(*grow(opened, tree, step), size)


def answer(tree: Tree, rest: WeightedData | None, size: int) -> tuple[WeightedData, dict[str, Any]]:
    """Return a coreset of `size` rows of all leaves so far and the rows left over, and what is known of it."""
    method = tree.reducer.method
    rows = stack([*(node.rows for node in tree.nodes), *([] if rest is None else [rest])])
    seed = node_seed(tree.seed, _TOP, tree.n_leaves)
    name = "residual" if method == "calibrated" else "epsilon"
    params: dict[str, Any] = {
        "reduce": method,
        "leaves": tree.n_leaves,
        "node_size": tree.reducer.size,
    }
    if not any(map(math.isnan, tree.losses)):
        params["levels"] = [{"level": level, name: loss} for level, loss in enumerate(tree.losses)]
    if method == "calibrated":
        # a stream may not know yet which label is +1, and draws from a mirrored posterior are other draws
        sign = rows.y[0]
        opened = Opened(as_source(replace(rows, y=rows.y * sign)))
        link = LIKELIHOODS[tree.reducer.likelihood]
        chosen, more = calibrated_coreset(opened, size, seed, likelihood=link, advise=False)
        mode = tree.reducer.mode(rows)
        errors = [error for node in tree.nodes for error in tree.errors_at(node, mode.beta)]
        below = mode_error(errors, mode.terms.precision)
        mean_error = math.hypot(more["mean_error"], below)
        _warn_of(mean_error, more["sd_error"], below)
        params |= {**more, "mean_error": mean_error, "sd_error": max(more["sd_error"], below), "tree_error": below}
        return replace(chosen, y=chosen.y * sign), params
    own = replace(tree.reducer, size=size)(rows, seed, node_delta(_TOP, tree.n_leaves))
    epsilon = tree.composed(max(tree.losses, default=0.0), own.loss)
    if not math.isnan(epsilon):
        params |= {"epsilon": epsilon, "delta": DELTA}
    radius = min([own.radius, *(node.radius for node in tree.nodes)])
    return own.rows, params | ({} if math.isinf(radius) else {"radius": radius})


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
