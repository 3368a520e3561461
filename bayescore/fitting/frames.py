r"""What earlier rows are known to say: the posterior about which they were condensed, and the errors found then.

Rows that are not read again stand by a coreset, with the score and the curvature that it misses. These were held
against the rows among the draws of one posterior, that of all rows so far. Two things follow for a later posterior.
Where its mean is beyond the reach of those draws,

.. math:: (m - m_k)' S_k^{-1} (m - m_k) > \chi^2_{K, 0.999},

m_k and S_k mean and covariance of the K parameters then, or an effect of a group is beyond theirs, nothing is known of
the rows there. And within it an error of e_k sds in means is one of at most e_k sd / sd_k sds, as later rows only add
information; that of sds shrinks by the square of this. Errors of different rows are independent, and add up in squares.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import stats

from bayescore.data.checkpoint import Arrays
from bayescore.diagnostics.certificate import Certificate
from bayescore.fitting.units import parameters
from bayescore.limits import NEGLIGIBLE_ERROR
from bayescore.models.predictor import Factor
from bayescore.samplers.inference_data import Posterior
from bayescore.types import FloatArray

_BEYOND = 0.001  # probability of a draw beyond the limit


@dataclass(frozen=True, eq=False)
class Frame:
    """Mean, shape (K,), and covariance of parameters, means and sds of effects, (2, G, q) by factor, and errors.

    `errors` are the largest of means, in sds, and of sds, relative, that a certificate found.
    """

    mean: FloatArray
    covariance: FloatArray
    effects: tuple[FloatArray, ...]
    errors: FloatArray

    @classmethod
    def of(cls, posterior: Posterior, certificate: Certificate) -> Self:
        """Return the frame of rows that a certificate held draws against."""
        names, draws = parameters(posterior)
        values = draws.reshape(-1, len(names)).copy()
        for place, name in enumerate(names[len(posterior.features) :], len(posterior.features)):
            values[:, place] = np.log(values[:, place]) if name.startswith("sigma_") else np.arctanh(values[:, place])
        groups = posterior.design.groups if posterior.design is not None and posterior.terms else ()
        effects = [Factor.of(own, posterior.variables) for own in groups]
        found = certificate.coordinates.reindex(columns=["mean_error_sd", "sd_error"]).abs().max().to_numpy(float)
        if not certificate.effects.empty:
            own = certificate.effects[["mean_error_sd", "log_sd_error"]].abs().max().to_numpy(float)
            found = np.fmax(found, np.append(own[0], np.expm1(own[1])))
        return cls(
            values.mean(axis=0),
            np.atleast_2d(np.cov(values.T)),
            tuple(own.moments() for own in effects),
            np.nan_to_num(found),
        )

    def distance(self, later: "Frame") -> tuple[float, float]:
        """Return by how many sds the mean has moved since, and the limit of that; of effects if these moved further."""
        step = later.mean - self.mean
        sd = np.sqrt(np.diagonal(self.covariance))
        sd = np.where(sd > 0.0, sd, 1.0)
        values, axes = np.linalg.eigh(self.covariance / np.outer(sd, sd))
        floor = np.finfo(float).eps * len(sd) * values[-1]
        moved = float(np.linalg.norm(axes.T @ (step / sd) / np.sqrt(np.maximum(values, floor))))
        found = [(moved, math.sqrt(float(stats.chi2.isf(_BEYOND, len(step)))))]
        n_effects = sum(own[0].size for own in self.effects)
        for own, now in zip(self.effects, later.effects, strict=True):
            there = now[0, : own.shape[1]]  # of the groups that were known
            furthest = float((np.abs(there - own[0]) / own[1]).max())
            found.append((furthest, float(stats.norm.isf(0.5 * _BEYOND / n_effects))))
        return max(found, key=lambda each: each[0] / each[1])

    def to_arrays(self, name: str) -> Arrays:
        """Return the frame as arrays whose names begin with `name`."""
        own = {f"{name}_effects{k}": each for k, each in enumerate(self.effects)}
        return {f"{name}_mean": self.mean, f"{name}_covariance": self.covariance, f"{name}_errors": self.errors, **own}

    @classmethod
    def from_arrays(cls, name: str, arrays: Arrays) -> Self:
        """Return the frame of `to_arrays`."""
        n_factors = sum(key.startswith(f"{name}_effects") for key in arrays)
        effects = tuple(arrays[f"{name}_effects{k}"] for k in range(n_factors))
        return cls(arrays[f"{name}_mean"], arrays[f"{name}_covariance"], effects, arrays[f"{name}_errors"])


def moved_too_far(frames: Sequence[Frame], later: Frame) -> tuple[str, str]:
    """Return why earlier rows must be read again, empty if they need not, and a sentence on how far the mean moved."""
    places = [frame.distance(later) for frame in frames]
    moved, limit = max(places, key=lambda each: each[0] / each[1])
    said = f"the mean has moved by {moved:.2g} sds of the posterior that they were read for (limit {limit:.2g})"
    if moved > limit:
        return said, said
    mean, spread = errors_before(frames, later)
    if max(mean, spread) > NEGLIGIBLE_ERROR:
        off = f"what was found of them adds up to an error of {mean:.2g} sd in means and {100.0 * spread:.2g}% in sds"
        return f"{off} (limits {NEGLIGIBLE_ERROR:g} and {NEGLIGIBLE_ERROR:.0%})", said
    return "", said


def errors_before(frames: Sequence[Frame], later: Frame) -> tuple[float, float]:
    """Return what was found of earlier rows as errors of means, in sds, and of sds, in the posterior of all rows."""
    sd = np.sqrt(np.diagonal(later.covariance))
    shares = [float((sd / np.sqrt(np.diagonal(frame.covariance))).max()) for frame in frames]
    mean = math.sqrt(sum((frame.errors[0] * share) ** 2 for frame, share in zip(frames, shares, strict=True)))
    spread = math.sqrt(sum((frame.errors[1] * share**2) ** 2 for frame, share in zip(frames, shares, strict=True)))
    return mean, spread


def frames_to_arrays(frames: Sequence[Frame]) -> Arrays:
    """Return frames as arrays."""
    arrays: dict[str, Any] = {}
    for k, frame in enumerate(frames):
        arrays |= frame.to_arrays(f"frame{k}")
    return arrays


def frames_from_arrays(arrays: Arrays) -> tuple[Frame, ...]:
    """Return the frames of `frames_to_arrays`."""
    n = sum(name.endswith("_mean") for name in arrays)
    return tuple(Frame.from_arrays(f"frame{k}", arrays) for k in range(n))
