"""Draws of the effects of any groups, made when they are asked for, and a summary of all.

Given (beta, log sigma) effects are independent of each other, so that those of any groups follow from the rows and the
draws of these (`effect_inversion`).
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayescore.compiled import jit
from bayescore.models.collapsed import CollapsedArguments, n_nodes, nodes_at
from bayescore.models.effect_inversion import effects_given
from bayescore.models.effect_nodes import figures
from bayescore.models.elementary import hash_uniform
from bayescore.models.quadrature import N_NODES
from bayescore.types import FloatArray, IntArray

_CHUNK = 1 << 18  # effects drawn at a time, fewer where they have more nodes: 30 MB
_ALIKE = 1.3  # ratio of sigmas of draws that share a number of nodes
_HELD = 1 << 28  # bytes of all draws, which are kept in memory once as many were asked for one by one
_STRIDE = 37  # between the probabilities of an effect and the next at one draw

LOOK = 100
"""Draws of (beta, log sigma) at least, that all groups are looked at."""

_LOOKED_AT = 1 << 20  # effects of a summary: of few groups it is of more draws, as these have more in common


def evenly(n_draws: int, n_groups: int = 0) -> IntArray:
    """Return places of draws, evenly spaced among all: `LOOK`, or more where summaries are of few groups."""
    size = max(LOOK, _LOOKED_AT // n_groups if n_groups else 0)
    return np.linspace(0, n_draws - 1, min(n_draws, size)).round().astype(np.int64)


@dataclass
class _Held:
    """All draws, once `asked` of them were asked for."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    asked: int = 0
    draws: NDArray[np.float32] | None = None

    def __reduce__(self) -> tuple[type["_Held"], tuple[()]]:
        return _Held, ()  # workers elsewhere have their own


@dataclass(frozen=True, eq=False)
class EffectDraws:
    """Draws of the effects of any groups at R draws of (beta, log sigma), made when they are asked for.

    The uniform number of an effect is a hash of the seed, the draw's key and the group's number. So draws of a group
    are the same whatever else is asked for. As an array their shape is (R, G, 1).
    """

    theta: FloatArray  # (R, p + 1)
    keys: IntArray  # (R,)
    seed: int
    mean: FloatArray  # of each effect over the draws, (G,)
    find: Callable[[], CollapsedArguments]  # the rows' density
    kept: IntArray  # groups whose draws stand beside it
    # what all rows add to the mean of an effect given (beta, log sigma), and multiply its sd by, (G,) each
    moved: tuple[FloatArray, FloatArray] | None = None
    _held: _Held = field(default_factory=_Held)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of draws and of groups."""
        return len(self.theta), len(self.mean)

    @cached_property
    def arguments(self) -> CollapsedArguments:
        """The rows' density."""
        return self.find()

    def __getitem__(self, index: Any) -> FloatArray:
        """Return draws, shape (S, k, 1), as an array does for draws, or for draws, shape (S, 1), and groups, (k,)."""
        at, groups = index if isinstance(index, tuple) else (index, np.arange(len(self.mean)))
        at = np.arange(len(self.theta))[at].ravel()
        some, places = np.unique(groups, return_inverse=True)
        return np.asarray(self.of(some, at)[:, places.ravel(), None])

    def summary(self) -> "EffectSummary":
        """Return what some of the draws, evenly spaced, say about all effects."""
        at = evenly(*self.shape)
        return summarise_effects(self.theta[at], self.arguments, self.moved)

    def of(self, groups: IntArray, at: IntArray | slice = slice(None)) -> NDArray[np.float32]:
        """Return draws of some groups' effects, float32 of shape (S, k); of the same ones many times from memory."""
        n_draws, n_groups = self.shape
        if (held := self._held.draws) is None and 4 * n_draws * n_groups <= _HELD:
            with self._held.lock:  # threads ask for the effects of their rows
                self._held.asked += len(self.theta[at]) * len(groups)
                if self._held.draws is None and self._held.asked > n_draws * n_groups:
                    self._held.draws = self._drawn(np.arange(n_groups), slice(None))
                held = self._held.draws
        return self._drawn(groups, at) if held is None else held[at][:, groups]

    def _drawn(self, groups: IntArray, at: IntArray | slice) -> NDArray[np.float32]:
        theta, keys = self.theta[at], self.keys[at].astype(np.uint64)
        own = self.arguments.of(groups, np.ones(len(groups)))
        out = np.empty((len(theta), len(groups)), dtype=np.float32)
        for cut in _pieces(theta, own):
            places, terms = nodes_at(theta[cut], own)
            uniforms = np.empty((len(cut), len(groups)))
            _fill_uniforms(np.uint64(self.seed), keys[cut], groups, uniforms)
            u = effects_given(terms, places, uniforms)
            if self.moved is not None:
                shift, stretch = (each[groups] for each in self.moved)
                middle = figures(terms, places).mean
                u = middle + shift + (u - middle) * stretch
            out[cut] = u
        return out


def _pieces(theta: FloatArray, arguments: CollapsedArguments) -> Iterator[IntArray]:
    """Yield places of draws of like sigma, which share a number of nodes, as many as memory has room for.

    A few draws of large sigma would ask for nodes that the others have no use for.
    """
    order, start = np.argsort(theta[:, -1], kind="stable"), 0
    sigma = np.exp(theta[order, -1])
    n_groups = max(len(arguments.peak) - 1, 1)
    while start < len(order):
        wide = np.searchsorted(sigma, _ALIKE * sigma[start], side="right")
        most = _CHUNK * N_NODES // n_nodes(float(sigma[wide - 1]), arguments)
        stop = min(wide, start + max(1, min(most, _CHUNK // n_groups)))
        yield order[start:stop]
        start = stop


@jit
def _fill_uniforms(seed: np.uint64, keys: NDArray[np.uint64], groups: IntArray, out: FloatArray) -> None:
    for s in range(keys.size):
        for k in range(groups.size):
            out[s, k] = hash_uniform(seed, np.uint64(groups[k]), keys[s])


class EffectSummary(NamedTuple):
    """Log-likelihoods of all rows at S draws, shape (S,), and of each effect mean, sd and draws: (G,), (S, G)."""

    log_likelihood: FloatArray
    mean: FloatArray
    sd: FloatArray
    draws: NDArray[np.float32]


def summarise_effects(
    theta: FloatArray, arguments: CollapsedArguments, moved: tuple[FloatArray, FloatArray] | None = None
) -> EffectSummary:
    """Return what S draws of (beta, log sigma) say about all effects; means and sds without the noise of draws.

    `moved` are shift and stretch of `EffectDraws`. Draws of an effect are at equally spaced probabilities given
    (beta, log sigma): for quantiles, not for joint draws.
    """
    n_draws, n_groups = len(theta), len(arguments.peak) - 1
    log_p, total, square = np.empty(n_draws), np.zeros(n_groups), np.zeros(n_groups)
    draws = np.empty((n_draws, n_groups), dtype=np.float32)
    for cut in _pieces(theta, arguments):
        at, terms = nodes_at(theta[cut], arguments)
        found = figures(terms, at)
        log_p[cut] = found.log_p.sum(axis=1)
        turn = (cut[:, None] + _STRIDE * np.arange(n_groups)) % n_draws
        mean, variance, u = found.mean, found.variance, effects_given(terms, at, (turn + 0.5) / n_draws)
        if moved is not None:
            u = mean + moved[0] + (u - mean) * moved[1]
            mean, variance = mean + moved[0], variance * moved[1] ** 2
        total += mean.sum(axis=0)
        square += (variance + mean**2).sum(axis=0)
        draws[cut] = u
    mean = total / n_draws
    return EffectSummary(log_p, mean, np.sqrt(np.maximum(square / n_draws - mean**2, 0.0)), draws)
