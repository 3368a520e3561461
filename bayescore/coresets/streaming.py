"""`StreamingCoreset`: a merge-and-reduce tree (`tree`) fed block by block."""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from bayescore.coresets.calibration.drift import Carried
from bayescore.coresets.merge_reduce import REDUCTIONS, MergeReduce, TreeInfo, leaf_size
from bayescore.coresets.method import BuildResult
from bayescore.coresets.reducing import Reducing
from bayescore.coresets.trees.incremental import BlockStream, rows_from_arrays, rows_to_arrays
from bayescore.coresets.trees.tree import Node, Tree
from bayescore.data.checkpoint import Arrays
from bayescore.data.passes.cutter import block_rows
from bayescore.models.priors import Prior, prior_from_dict
from bayescore.types import WeightedData
from bayescore.validation import RandomState, check_choice, one_seed


def _written(method: Reducing) -> Any:
    """Return a method as JSON has it: its name, or a pair of that and the options given."""
    if REDUCTIONS.get(method.name) is not type(method):
        raise TypeError(f"reduce={method!r} is not registered: a checkpoint could not be read back")
    options: dict[str, Any] = {}
    for name, value in method.given.items():
        if isinstance(value, Prior):
            value = value.to_dict()
        elif not isinstance(value, int | float | str | tuple | list):
            raise TypeError(
                f"reduce={method.described}: a checkpoint cannot hold {name}; give an array or a word for it"
            )
        options[name] = value
    return [method.name, options] if options else method.name


def _read(written: Any) -> str | Reducing:
    """Return the method of `_written`."""
    if isinstance(written, str):
        return written
    name, options = written
    for option, value in options.items():
        if isinstance(value, dict):
            options[option] = prior_from_dict(value)
    return REDUCTIONS[check_choice(name, "reduce", REDUCTIONS)](**options)


class StreamingCoreset(BlockStream[Tree]):
    """A coreset of a stream by merge and reduce: feed it blocks of rows, ask for the coreset, and go on.

    The coreset is that of ``build_coreset(..., method="merge_reduce")`` over the rows so far, however they were cut
    into blocks: rows wait until a leaf of the tree is full. Memory is bounded by a leaf and log2(leaves) + 1 nodes of
    4 `size` rows.

    Parameters
    ----------
    likelihood : name of a registered likelihood
        Model that the coreset is for.
    size : int
        Rows of the coreset, at most.
    reduce : str or Method
        How the rows of two nodes become those of one, as in `MergeReduce`. ``"calibrated"`` keeps mode and curvature,
        ``"condensed"`` mean and covariance, in as few as two rows a column; the others draw, and what each draw loses
        adds up.
    random_state, random_seed : int, Generator, SeedSequence or None
        Seed, by either name; the one used is kept as ``core.random_state``.
    mu : float, optional
        Bound of the complexity (`mu_complexity`) of every leaf and node, not only of all rows, with which
        ``"leverage"`` tells its epsilon.
    leaf_rows : int, optional
        Rows of a leaf; by default those of about 8 MB, but 16 `size` at least.
    intercept : bool
        Put a column of ones, named "Intercept", first.
    classes : pair of labels, optional
        The two labels; the second in sorted order is +1. By default they are found as they are met: a block may have
        one of them only.

    Raises
    ------
    TypeError, ValueError
        If an option is of the wrong kind or out of its range, or `size` is too small for the columns.
    DataError
        Of `partial_fit`, if a block cannot be used.

    Notes
    -----
    Of a calibrated or condensed tree ``core.params`` has `mean_error`, the error to expect of a posterior mean in sds:
    that of the last reduction and `tree_error`, two standard errors of what the nodes miss because the mode moved after
    they were calibrated (`drift`), or condensed (`condensing.drift`). It is right within a factor of 2 or so while it
    is below 0.3; `sd_error`, at least as large as `tree_error`, is mostly too careful. ``core.params["levels"]`` has
    for each level of the tree what was lost up to there: the largest epsilon, by the sizes' theorems with their
    constant c = 1 and all failures together of probability delta = 0.05, which from 1 on promises nothing; or, of
    calibrated nodes, about the whitened score that the weights missed, in posterior sds, of condensed ones the same
    over the posterior of the rows so far.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore import StreamingCoreset
    >>> rng = np.random.default_rng(0)
    >>> stream = StreamingCoreset("logistic", size=60, leaf_rows=1000, intercept=True, random_state=1)
    >>> for _ in range(50):
    ...     X = rng.normal(size=(100, 2))
    ...     stream = stream.partial_fit(X, X[:, 0] + rng.logistic(size=100) > 0)
    >>> core = stream.coreset()
    >>> core.n_total, core.method, core.params["leaves"]
    (5000, 'merge_reduce', 5)
    """

    def __init__(
        self,
        likelihood: str,
        size: int,
        reduce: str | Reducing = "calibrated",
        random_state: RandomState = None,
        *,
        random_seed: RandomState = None,
        mu: float | None = None,
        leaf_rows: int | None = None,
        intercept: bool = False,
        classes: Iterable[Any] | None = None,
    ) -> None:
        self._tree = MergeReduce(reduce, mu, leaf_rows)
        super().__init__(
            self._tree, size, likelihood, one_seed(random_state, random_seed), intercept=intercept, classes=classes
        )
        self._tree.check(self.size, self.likelihood)
        _ = self._tree.reducer(self.size, self.likelihood)  # raises where priors go by names

    def _block_rows(self, n_features: int) -> int:
        return self._tree.leaf_rows or leaf_size(self.size, block_rows(n_features))

    def _empty(self, n_features: int) -> Tree:
        self._tree.method.check_nodes(self.size, n_features)
        return Tree(self._tree.reducer(self.size, self.likelihood), self.random_state)

    def _absorbed(self, state: Tree, block: WeightedData) -> Tree:
        return state.absorb(state.reduced_leaf(state.n_leaves, block))

    def _answer(self, state: Tree, rest: WeightedData | None) -> BuildResult[TreeInfo]:
        return self._tree.answer(state, rest, self.size)

    def _options(self) -> dict[str, Any]:
        return {
            "likelihood": self.likelihood,
            "size": self.size,
            "reduce": _written(self._tree.method),
            "random_state": self.random_state,
            "mu": self._tree.mu,
            "leaf_rows": self._tree.leaf_rows,
            "intercept": self.intercept,
        }

    @classmethod
    def _from_options(cls, options: dict[str, Any]) -> Self:
        return cls(**{**options, "reduce": _read(options["reduce"])})

    def _to_arrays(self, state: Tree) -> Arrays:
        arrays = {
            "n_leaves": np.array(state.n_leaves),
            "losses": np.array(state.losses),
            "level": np.array([node.level for node in state.nodes], dtype=np.int64),
            "loss": np.array([node.loss for node in state.nodes]),
            "radius": np.array([node.radius for node in state.nodes]),
            "share": np.array([node.share for node in state.nodes]),
        }
        if state.anchor is not None:
            arrays["anchor"] = state.anchor
        for i, node in enumerate(state.nodes):
            arrays |= rows_to_arrays(f"node{i}", node.rows)
            if node.anchor is not None:
                arrays[f"node{i}_anchor"] = node.anchor
            if node.lost is not None:
                arrays[f"node{i}_lost"] = node.lost
            for k, error in enumerate(node.carried):
                own = {"anchor": error.anchor, "at": error.at, "covariance": error.covariance}
                arrays |= {f"node{i}_carried{k}_{name}": array for name, array in own.items()}
        return arrays

    def _from_arrays(self, arrays: Arrays) -> Tree:
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
                tuple(carried(i, k) for k in range(64) if f"node{i}_carried{k}_at" in arrays),
                arrays.get(f"node{i}_lost"),
            )
            for i, (level, loss, radius, share) in enumerate(about)
        )
        losses = tuple(arrays["losses"].tolist())
        reducer = self._tree.reducer(self.size, self.likelihood)
        return Tree(reducer, self.random_state, nodes, int(arrays["n_leaves"]), losses, arrays.get("anchor"))
