r"""Numbers with normal noise of an unknown sd: the posterior of sds and correlations, all else integrated out.

With coefficients beta ~ N(m, P^-1), effects u ~ N(0, S) of all group terms, W the sum of weights,

.. math:: \log p(y | \sigma, S) = -\tfrac12 \Big[ W \log 2 \pi \sigma^2 + \log\det H - \log\det P + \log\det S
          + r' r / \sigma^2 + (\hat\beta - m)' P (\hat\beta - m) + \hat u' S^{-1} \hat u \Big]

H is the precision of coefficients and effects given the sds, (\hat\beta, \hat u) their mean and r the residuals there.
Without groups that is a function of sigma alone. Given sds, coefficients and effects are normal: c + e with
e ~ N(0, H) in place of the gradient c at 0 gives a draw H^-1 (c + e) (Papandreou and Yuille 2010, Gaussian sampling by
local perturbations). Sums of rows tell all of it as all rows do.

Priors: half Student t of sds, LKJ of correlations, whose partial correlations are independent (Lewandowski, Kurowicka
and Joe 2009, Generating random correlation matrices based on vines and extended onion method).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse

from bayescore.data.coreset import Coreset
from bayescore.models.groups.rows import Curvature, JointRows
from bayescore.priors import Prior
from bayescore.priors.groups import LKJ_ETA, GroupPrior, log_sigma_terms
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import DataError

_LOG_2PI = math.log(2.0 * math.pi)
_FARTHEST = 40.0  # log sds, from the scale of their prior: beyond, densities are 0 but for rounding
_NATS = 40.0  # below the mode, where the grid of log sigma ends
_POINTS = 2001  # of the grid: some hundred to an sd
_COARSE = 161
_DENSE = 250  # coefficients and effects, up to which a matrix of all is faster than one of blocks
_FIRST = 0.5  # sd of effects over that of the noise, in columns of scale 1
_STEP = 1e-3  # of log sds, for second differences
_LEAST_CURVATURE = 0.1  # of log sds: where rows say nothing their prior does


@dataclass(frozen=True, eq=False)
class WhitenedRows:
    """Rows X, shape (n, p), of coefficients v ~ N(0, I), beta = m + R^-1 v, and y less X m; weights w, (n,)."""

    X: FloatArray
    y: FloatArray
    w: FloatArray
    mean: FloatArray
    root: FloatArray  # R, upper triangular

    @classmethod
    def of(cls, rows: WeightedData, prior: Prior) -> "WhitenedRows":
        """Return rows of numbers, given a normal prior of their coefficients."""
        assert rows.offset is not None
        none = np.zeros(rows.n_features)
        P = prior.precision(none)
        root = np.linalg.cholesky(P).T
        mean = linalg.cho_solve((root, False), prior.gradient(none))
        X = linalg.solve_triangular(root, rows.X.T, trans="T").T
        return cls(X, -rows.offset - rows.X @ mean, rows.weights, mean, np.asarray(root, dtype=np.float64))

    def beta(self, v: FloatArray) -> FloatArray:
        """Return coefficients, shape (S, p), at v."""
        return np.asarray(self.mean + linalg.solve_triangular(self.root, v.T).T)


@dataclass(frozen=True, eq=False)
class FlatNormal:
    """Rows without groups: M = sqrt(w) X = U s V', and sqrt(w) y = U g + rest."""

    rows: WhitenedRows
    s: FloatArray  # (p,)
    V: FloatArray
    g: FloatArray
    rest: float  # sum of squares
    sd_prior: GroupPrior

    @classmethod
    def of(cls, data: WeightedData, prior: Prior, sd_prior: GroupPrior) -> "FlatNormal":
        """Return the posterior of rows."""
        rows = WhitenedRows.of(data, prior)
        root = np.sqrt(rows.w)
        M, y = root[:, None] * rows.X, root * rows.y
        if (short := M.shape[1] - len(M)) > 0:
            M, y = np.vstack([M, np.zeros((short, M.shape[1]))]), np.append(y, np.zeros(short))
        U, s, turned = np.linalg.svd(M, full_matrices=False)
        g = U.T @ y
        left = y - U @ g
        return cls(rows, s, turned.T, g, float(left @ left), sd_prior)

    def log_densities(self, log_sd: FloatArray) -> FloatArray:
        """Return the log density of log sigma, shape (n,)."""
        variance, ratio = np.exp(2.0 * log_sd), np.exp(-2.0 * log_sd)
        weight = float(self.rows.w.sum())
        square = self.rest * ratio + (self.g**2 / (variance[:, None] + self.s**2)).sum(axis=1)
        logs = np.log1p(self.s**2 * ratio[:, None]).sum(axis=1) + weight * (_LOG_2PI + 2.0 * log_sd)
        of_prior = np.array([log_sigma_terms(each, *self.sd_prior.table)[0] for each in log_sd])
        return np.asarray(of_prior - 0.5 * (square + logs))

    @cached_property
    def grid(self) -> tuple[FloatArray, FloatArray]:
        """Points of log sigma, and the cumulative distribution there."""

        def loss(log_sd: float) -> float:
            return -float(self.log_densities(np.array([log_sd]))[0])

        middle = math.log(self.sd_prior.sigma)
        coarse = np.linspace(middle - _FARTHEST, middle + 0.5 * _FARTHEST, _COARSE)
        best = coarse[int(np.argmax(self.log_densities(coarse)))]
        step = coarse[1] - coarse[0]
        around = (best - step, best + step)
        mode = optimize.minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 1e-9}).x
        ends = list[float]()
        for sign in (-1.0, 1.0):
            far = 1e-6
            while loss(mode + sign * far) - loss(mode) < _NATS and far < _FARTHEST:
                far *= 1.5
            ends.append(float(mode) + sign * far)
        points = np.linspace(ends[0], ends[1], _POINTS)
        values = self.log_densities(points)
        density = np.exp(values - values.max())
        total = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1])))
        return points, total / total[-1]

    @cached_property
    def log_evidence(self) -> float:
        """Log of the density of the responses, all parameters integrated out."""
        points, _ = self.grid
        return float(np.logaddexp.reduce(self.log_densities(points))) + math.log(points[1] - points[0])

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return n independent draws of the coefficients, shape (n, p), and of sigma, (n,)."""
        points, share = self.grid
        sd = np.exp(np.interp(rng.random(n), share, points))
        variance = (sd**2)[:, None]
        t = self.s * self.g / (variance + self.s**2)
        t += rng.standard_normal(t.shape) * np.sqrt(variance / (variance + self.s**2))
        return self.rows.beta(t @ self.V.T), sd


@dataclass(frozen=True, eq=False)
class GroupSds:
    """Sds and correlations at a point: sigma, and the factor B of each factor's covariance, S = B B', (q, q)."""

    sd: float
    factors: list[FloatArray]


class _Factored(NamedTuple):
    """The factor of a precision of coefficients and effects: its log determinant, and what solves by it, (p + E,)."""

    log_det: float
    solve: Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class GroupedNormal:
    """Rows with groups. A point has log sigma, and for each factor log sds and Fisher's z of partial correlations."""

    rows: JointRows
    flat: WhitenedRows
    columns: Any  # of coefficients and effects, (n, p + E): an array where these are few, else sparse
    curvature: FloatArray | Curvature  # of the log-likelihood for sigma = 1
    pull: FloatArray  # of y on coefficients and effects, (p + E,)
    priors: tuple[GroupPrior, GroupPrior]  # of sds of effects and of the noise

    @classmethod
    def of(cls, core: Coreset, prior: Prior, group_prior: GroupPrior, sd_prior: GroupPrior) -> "GroupedNormal":
        """Return the posterior of a coreset of numbers."""
        rows = JointRows.of(core)
        flat = WhitenedRows.of(rows.rows, prior)
        columns: Any = sparse.hstack([sparse.csr_array(flat.X), rows.columns], format="csr")
        curvature: FloatArray | Curvature
        if columns.shape[1] <= _DENSE:
            columns = columns.toarray()
            curvature = (columns.T * flat.w) @ columns
        else:
            curvature = rows.curvature(flat.w, flat.X)
        return cls(rows, flat, columns, curvature, columns.T @ (flat.w * flat.y), (group_prior, sd_prior))

    @property
    def seconds(self) -> float:
        """About how long a log density takes, by sizes alone, so that draws do not depend on the machine."""
        if not isinstance(self.curvature, Curvature):
            return 0.0
        (G, q), rest = self.rows.shapes[0], len(self.curvature.rest)
        return 5e-4 + 3e-7 * G * q**2 + 1e-7 * self.curvature.cross.nnz + 3e-11 * rest**3

    @property
    def _sizes(self) -> list[int]:
        return [q for _, q in self.rows.shapes]

    def sds(self, point: FloatArray) -> GroupSds:
        """Return sds and correlations at a point."""
        factors, at = [], 1
        for q in self._sizes:
            sd, z = np.exp(point[at : at + q]), np.tanh(point[at + q : at + q + q * (q - 1) // 2])
            L, left, k = np.zeros((q, q)), np.ones(q), 0
            for i in range(q):
                for j in range(i):
                    L[i, j] = z[k] * math.sqrt(left[i])
                    left[i] -= L[i, j] ** 2
                    k += 1
                L[i, i] = math.sqrt(max(left[i], np.finfo(float).tiny))
            factors.append(sd[:, None] * L)
            at += q + len(z)
        return GroupSds(math.exp(point[0]), factors)

    def log_prior(self, point: FloatArray) -> float:
        """Return the log density of the priors in these coordinates, up to a constant."""
        total, at = log_sigma_terms(point[0], *self.priors[1].table)[0], 1
        for q in self._sizes:
            total += sum(log_sigma_terms(each, *self.priors[0].table)[0] for each in point[at : at + q])
            at += q
            for i in range(q):
                for j in range(i):
                    shape = LKJ_ETA + 0.5 * (q - 2 - j)
                    total -= 2.0 * shape * float(np.logaddexp(point[at], -point[at]))
                    at += 1
        return float(total)

    def _factored(self, own: GroupSds) -> tuple[_Factored, list[FloatArray]]:
        """Return the factor of sigma^2 H, and B^-1 of each factor."""
        turns = [linalg.solve_triangular(B, np.eye(len(B)), lower=True) for B in own.factors]
        precisions = [own.sd**2 * turn.T @ turn for turn in turns]
        p, (G, q) = self.flat.X.shape[1], self.rows.shapes[0]
        if isinstance(self.curvature, Curvature):
            shapes = zip(precisions, self.rows.shapes, strict=True)
            blocks = [np.broadcast_to(P, (H, r, r)) for P, (H, r) in shapes]
            solver = self.curvature.solver(own.sd**2 * np.eye(p), blocks)

            def solve(pull: FloatArray) -> FloatArray:
                first, rest = solver.solve(pull[p : p + G * q].reshape(G, q), np.delete(pull, slice(p, p + G * q)))
                return np.concatenate([rest[:p], first.ravel(), rest[p:]])

            log_det = float(np.linalg.slogdet(solver.D)[1].sum())
            return _Factored(log_det + 2.0 * float(np.log(np.diagonal(solver.factor)).sum()), solve), turns
        H, at = self.curvature.copy(), p
        H[np.arange(p), np.arange(p)] += own.sd**2
        for P, (G, q) in zip(precisions, self.rows.shapes, strict=True):
            places = at + np.arange(G * q).reshape(G, q)
            H[places[:, :, None], places[:, None, :]] += P
            at += G * q
        L = np.linalg.cholesky(H)
        return _Factored(2.0 * float(np.log(np.diagonal(L)).sum()), partial(linalg.cho_solve, (L, True))), turns

    def _parts(self, x: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """Return v, shape (..., p), and effects, (..., G, q) each, of vectors (..., p + E)."""
        ends = np.cumsum([self.flat.X.shape[1], *(G * q for G, q in self.rows.shapes)])[:-1]
        v, *effects = np.split(x, ends, axis=-1)
        shapes = zip(effects, self.rows.shapes, strict=True)
        return v, [u.reshape(*x.shape[:-1], *shape) for u, shape in shapes]

    def log_density(self, point: FloatArray) -> float:
        """Return the log density of a point, -inf where it is beyond numbers."""
        z = np.abs(point[self._correlations])
        if np.abs(point[~self._correlations] - self._middle).max() > _FARTHEST or z.max(initial=0.0) > 0.3 * _FARTHEST:
            return -math.inf
        own = self.sds(point)
        try:
            factored, turns = self._factored(own)
            x = factored.solve(self.pull)
        except (DataError, np.linalg.LinAlgError):
            return -math.inf
        v, effects = self._parts(x)
        square = float(self.flat.w @ (self.flat.y - self.columns @ x) ** 2) / own.sd**2 + float(v @ v)
        logs = factored.log_det + (float(self.flat.w.sum()) - len(x)) * 2.0 * point[0]
        for B, turn, u in zip(own.factors, turns, effects, strict=True):
            square += float(((u @ turn.T) ** 2).sum())
            logs += 2.0 * len(u) * float(np.log(np.diagonal(B)).sum())
        value = self.log_prior(point) - 0.5 * (square + logs + float(self.flat.w.sum()) * _LOG_2PI)
        return value if math.isfinite(value) else -math.inf

    def draw(self, point: FloatArray, n: int, rng: np.random.Generator) -> tuple[FloatArray, list[FloatArray]]:
        """Return n draws of coefficients, shape (n, p), and of each factor's effects, (n, G, q), given the point."""
        own = self.sds(point)
        factored, turns = self._factored(own)
        found = np.empty((n, len(self.pull)))
        for x in found:
            noise = own.sd * np.sqrt(self.flat.w) * rng.standard_normal(len(self.flat.w))
            of_prior = [rng.standard_normal(shape) @ turn for turn, shape in zip(turns, self.rows.shapes, strict=True)]
            more = np.concatenate([rng.standard_normal(self.flat.X.shape[1]), *(each.ravel() for each in of_prior)])
            x[:] = factored.solve(self.pull + self.columns.T @ noise + own.sd**2 * more)
        v, effects = self._parts(found)
        return self.flat.beta(v), effects

    @cached_property
    def _correlations(self) -> NDArray[np.bool_]:
        parts = [[False] * q + [True] * (q * (q - 1) // 2) for q in self._sizes]
        return np.array([False, *(each for part in parts for each in part)])

    @cached_property
    def _middle(self) -> FloatArray:
        """Logs of the scales of the sds' priors."""
        return np.array([math.log(self.priors[1].sigma), *[math.log(self.priors[0].sigma)] * sum(self._sizes)])

    def first(self, sd: float) -> FloatArray:
        """Return a point to begin with, given about sigma: effects are half of it, and uncorrelated."""
        w, found = self.flat.w, [math.log(sd)]
        for z, q in zip(self.rows.z, self._sizes, strict=True):
            size = np.sqrt(np.maximum(w @ z**2 / w.sum(), np.finfo(float).tiny))
            found += [*np.log(_FIRST * sd / size), *[0.0] * (q * (q - 1) // 2)]
        return np.array(found)

    def mode(self, sd: float) -> tuple[FloatArray, FloatArray]:
        """Return the mode, and the factor of about the covariance there, sought from about sigma."""
        first = self.first(sd)
        worst = -self.log_density(first) + 1e6

        def loss(point: FloatArray) -> float:
            return min(-self.log_density(point), worst)

        point = optimize.minimize(loss, first, method="BFGS", options={"gtol": 1e-2, "eps": 1e-5}).x
        k = len(point)
        H, each, middle = np.empty((k, k)), 10.0 * _STEP * np.eye(k), loss(point)
        for i in range(k):
            H[i, i] = loss(point + each[i]) + loss(point - each[i]) - 2.0 * middle
            for j in range(i):
                ends = [loss(point + a * each[i] + b * each[j]) for a, b in ((1, 1), (-1, -1), (1, -1), (-1, 1))]
                H[i, j] = H[j, i] = 0.25 * (ends[0] + ends[1] - ends[2] - ends[3])
        values, turn = np.linalg.eigh(H / (10.0 * _STEP) ** 2)
        return point, turn / np.sqrt(np.maximum(values, _LEAST_CURVATURE))


def correlations_of(factors: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return sds, shape (n, q), and correlations, (n, q, q), given factors of covariances, (q, q) each."""
    B = np.stack(factors)
    S = B @ B.transpose(0, 2, 1)
    sd = np.sqrt(np.einsum("nqq->nq", S))
    return sd, S / (sd[:, :, None] * sd[:, None, :])
