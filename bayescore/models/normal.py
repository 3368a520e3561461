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
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

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
_DENSE = 1 << 20  # numbers of an array in place of a sparse matrix
_PIECE = 1 << 21  # numbers of matrices at a time
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
        return np.asarray(_log_sigma(log_sd, self.sd_prior) - 0.5 * (square + logs))

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


class GroupSds(NamedTuple):
    """Sds and correlations at n points: sigma, (n,), and the factors B of each factor's covariances B B', (n, q, q)."""

    sd: FloatArray
    factors: list[FloatArray]


@dataclass(frozen=True, eq=False)
class GroupedNormal:
    """Rows with groups. A point has log sigma, and for each factor log sds and Fisher's z of partial correlations."""

    rows: JointRows
    flat: WhitenedRows
    columns: sparse.csr_array  # of coefficients and effects, (n, p + E)
    curvature: Curvature  # of the log-likelihood for sigma = 1
    cross: FloatArray | None  # of it, (G, q, m), where that is no large array: then many points go together
    pull: FloatArray  # of y on coefficients and effects, (p + E,)
    priors: tuple[GroupPrior, GroupPrior]  # of sds of effects and of the noise

    @classmethod
    def of(cls, core: Coreset, prior: Prior, group_prior: GroupPrior, sd_prior: GroupPrior) -> "GroupedNormal":
        """Return the posterior of a coreset of numbers."""
        rows = JointRows.of(core)
        flat = WhitenedRows.of(rows.rows, prior)
        columns = sparse.hstack([sparse.csr_array(flat.X), rows.columns], format="csr")
        curvature, (G, q) = rows.curvature(flat.w, flat.X), rows.shapes[0]
        cross = curvature.cross.toarray().reshape(G, q, -1) if math.prod(curvature.cross.shape) <= _DENSE else None
        return cls(rows, flat, columns, curvature, cross, columns.T @ (flat.w * flat.y), (group_prior, sd_prior))

    @property
    def seconds(self) -> float:
        """About how long a log density takes, by sizes alone, so that draws do not depend on the machine."""
        (G, q), m, rows = self.rows.shapes[0], len(self.curvature.rest), len(self.flat.w)
        if self.cross is not None:
            return 5e-8 * rows + 1e-8 * G * q * (m + 10 * q) + 1e-9 * G * q * m**2 + 1e-10 * m**3
        return 5e-4 + 3e-7 * G * q**2 + 1e-7 * self.curvature.cross.nnz + 3e-11 * m**3

    def sds(self, points: FloatArray) -> GroupSds:
        """Return sds and correlations at points, shape (n, k)."""
        factors, at, n = [], 1, len(points)
        for own in self.rows.factors:
            q, (firsts, _) = len(own.effects), own.block_ends.T
            sd, z = np.exp(points[:, at : at + q]), np.tanh(points[:, at + q : at + q + len(own.pairs[0])])
            L, left, k = np.zeros((n, q, q)), np.ones((n, q)), 0
            for i in range(q):
                for j in range(firsts[i], i):
                    L[:, i, j] = z[:, k] * np.sqrt(left[:, i])
                    left[:, i] -= L[:, i, j] ** 2
                    k += 1
                L[:, i, i] = np.sqrt(np.maximum(left[:, i], np.finfo(float).tiny))
            factors.append(sd[:, :, None] * L)
            at += q + z.shape[1]
        return GroupSds(np.exp(points[:, 0]), factors)

    def log_priors(self, points: FloatArray) -> FloatArray:
        """Return the log density of the priors in these coordinates, shape (n,), up to a constant."""
        total, at = _log_sigma(points[:, 0], self.priors[1]), 1
        for own in self.rows.factors:
            q = len(own.effects)
            for sd in points.T[at : at + q]:
                total += _log_sigma(sd, self.priors[0])
            at += q
            for i, (first, end) in enumerate(own.block_ends):
                for j in range(first, i):
                    shape = LKJ_ETA + 0.5 * (end - 2 - j)
                    total -= 2.0 * shape * np.logaddexp(points[:, at], -points[:, at])
                    at += 1
        return total

    def _solved(self, own: GroupSds, turns: list[FloatArray], pulls: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log determinants of sigma^2 H, (n,), and what solves it for the right hand sides, (n, p + E)."""
        square, p, shapes = own.sd[:, None, None] ** 2, self.flat.X.shape[1], self.rows.shapes
        precisions = [square * turn.transpose(0, 2, 1) @ turn for turn in turns]
        log_det, x, (G, q) = np.empty(len(pulls)), np.empty(pulls.shape), shapes[0]
        first, rest = slice(p, p + G * q), np.r_[:p, p + G * q : pulls.shape[1]]
        step = max(1, _PIECE // (G * q * len(rest) + len(rest) ** 2)) if self.cross is not None else 1
        for start in range(0, len(pulls), step):
            cut = slice(start, start + step)
            P, of_first = [each[cut] for each in precisions], pulls[cut, first].reshape(-1, G, q)
            if self.cross is None:
                blocks = [np.broadcast_to(each[0], (H, r, r)) for each, (H, r) in zip(P, shapes, strict=True)]
                solver = self.curvature.solver(square[start] * np.eye(p), blocks)
                u, move = solver.solve(of_first[0], pulls[start, rest])
                log_det[cut] = np.linalg.slogdet(solver.D)[1].sum() + 2.0 * np.log(np.diagonal(solver.factor)).sum()
                x[cut, first], x[cut, rest] = u.ravel(), move
                continue
            D = self.curvature.first + P[0][:, None]
            inverse = 1.0 / D if q == 1 else np.linalg.inv(D)
            W = inverse * self.cross if q == 1 else inverse @ self.cross  # (n, G, q, m)
            schur = self.curvature.rest - self.cross.reshape(G * q, -1).T @ W.reshape(len(W), G * q, -1)
            schur[:, np.arange(p), np.arange(p)] += square[cut, 0]
            at = p
            for each, (H, r) in zip(P[1:], shapes[1:], strict=True):
                places = at + np.arange(H * r).reshape(H, r)
                schur[:, places[:, :, None], places[:, None, :]] += each[:, None]
                at += H * r
            log_det[cut] = np.log(D).sum(axis=(1, 2, 3)) if q == 1 else np.linalg.slogdet(D)[1].sum(axis=1)
            log_det[cut] += 2.0 * np.log(np.einsum("nii->ni", np.linalg.cholesky(schur))).sum(axis=1)
            left = pulls[cut][:, rest] - np.einsum("ngqm,ngq->nm", W, of_first)
            move = np.linalg.solve(schur, left[:, :, None])[:, :, 0]
            u = (inverse @ of_first[..., None])[..., 0] - np.einsum("ngqm,nm->ngq", W, move)
            x[cut, first], x[cut, rest] = u.reshape(len(u), -1), move
        return log_det, x

    def _parts(self, x: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """Return v, shape (n, p), and effects, (n, G, q) each, of vectors (n, p + E)."""
        ends = np.cumsum([self.flat.X.shape[1], *(G * q for G, q in self.rows.shapes)])[:-1]
        v, *effects = np.split(x, ends, axis=1)
        return v, [u.reshape(len(x), *shape) for u, shape in zip(effects, self.rows.shapes, strict=True)]

    def log_densities(self, points: FloatArray) -> FloatArray:
        """Return the log density of points, shape (n,), -inf where it is beyond numbers."""
        far = np.abs(points[:, ~self._correlations] - self._middle).max(axis=1) > _FARTHEST
        far |= np.abs(points[:, self._correlations]).max(axis=1, initial=0.0) > 0.3 * _FARTHEST
        found = np.full(len(points), -np.inf)
        found[~far] = self._within(points[~far])
        return np.where(np.isfinite(found), found, -np.inf)

    def _within(self, points: FloatArray) -> FloatArray:
        own = self.sds(points)
        turns = [np.asarray(np.linalg.inv(B)) for B in own.factors]
        try:
            log_det, x = self._solved(own, turns, np.repeat(self.pull[None], len(points), axis=0))
        except (DataError, np.linalg.LinAlgError):
            if len(points) == 1:
                return np.full(1, -np.inf)
            return np.concatenate([self._within(point[None]) for point in points])
        (v, effects), w = self._parts(x), self.flat.w
        gaps = self.flat.y - (self.columns @ x.T).T
        square = (gaps**2 @ w) / own.sd**2 + (v**2).sum(axis=1)
        logs = log_det + float(w.sum()) * _LOG_2PI + (float(w.sum()) - len(self.pull)) * 2.0 * points[:, 0]
        for B, turn, u in zip(own.factors, turns, effects, strict=True):
            square += ((u @ turn.transpose(0, 2, 1)) ** 2).sum(axis=(1, 2))
            logs += 2.0 * u.shape[1] * np.log(np.einsum("nqq->nq", B)).sum(axis=1)
        return np.asarray(self.log_priors(points) - 0.5 * (square + logs))

    def draw(self, points: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, list[FloatArray]]:
        """Return a draw of coefficients, shape (n, p), and of each factor's effects, (n, G, q), at each point."""
        own, n = self.sds(points), len(points)
        turns = [np.asarray(np.linalg.inv(B)) for B in own.factors]
        of_rows = np.sqrt(self.flat.w) * rng.standard_normal((n, len(self.flat.w))) * own.sd[:, None]
        more = [rng.standard_normal((n, self.flat.X.shape[1]))]
        for turn, shape in zip(turns, self.rows.shapes, strict=True):
            more.append((rng.standard_normal((n, *shape)) @ turn).reshape(n, -1))
        pulls = self.pull + (self.columns.T @ of_rows.T).T + own.sd[:, None] ** 2 * np.concatenate(more, axis=1)
        v, effects = self._parts(self._solved(own, turns, pulls)[1])
        return self.flat.beta(v), effects

    @cached_property
    def _correlations(self) -> NDArray[np.bool_]:
        parts = [[False] * len(own.effects) + [True] * len(own.pairs[0]) for own in self.rows.factors]
        return np.array([False, *(each for part in parts for each in part)])

    @cached_property
    def _middle(self) -> FloatArray:
        """Logs of the scales of the sds' priors."""
        n_effects = sum(q for _, q in self.rows.shapes)
        return np.array([math.log(self.priors[1].sigma), *[math.log(self.priors[0].sigma)] * n_effects])

    def first(self, sd: float) -> FloatArray:
        """Return a point to begin with, given about sigma: effects are half of it, and uncorrelated."""
        w, found = self.flat.w, [math.log(sd)]
        for z, own in zip(self.rows.z, self.rows.factors, strict=True):
            size = np.sqrt(np.maximum(w @ z**2 / w.sum(), np.finfo(float).tiny))
            found += [*np.log(_FIRST * sd / size), *[0.0] * len(own.pairs[0])]
        return np.array(found)

    def mode(self, sd: float) -> tuple[FloatArray, FloatArray]:
        """Return the mode, and the factor of about the covariance there, sought from about sigma."""
        first = self.first(sd)
        k, worst = len(first), 1e6 - float(self.log_densities(first[None])[0])

        def losses(points: FloatArray) -> FloatArray:
            return np.minimum(-self.log_densities(points), worst)

        def descent(point: FloatArray) -> tuple[float, FloatArray]:
            found = losses(np.vstack([point, point + steps, point - steps]))
            return float(found[0]), (found[1 : k + 1] - found[k + 1 :]) / (2.0 * _STEP)

        steps = _STEP * np.eye(k)
        point = optimize.minimize(descent, first, jac=True, method="BFGS", options={"gtol": 1e-2}).x
        slopes = [[descent(point + sign * 10.0 * step)[1] for sign in (1.0, -1.0)] for step in steps]
        H = np.array([up - down for up, down in slopes]) / (20.0 * _STEP)
        values, turn = np.linalg.eigh(0.5 * (H + H.T))
        return point, turn / np.sqrt(np.maximum(values, _LEAST_CURVATURE))


def _log_sigma(log_sd: FloatArray, prior: GroupPrior) -> FloatArray:
    return np.array([log_sigma_terms(each, *prior.table)[0] for each in log_sd])


def correlations_of(B: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return sds, shape (n, q), and correlations, (n, q, q), given factors of covariances, (n, q, q)."""
    S = B @ B.transpose(0, 2, 1)
    sd = np.sqrt(np.einsum("nqq->nq", S))
    return sd, S / (sd[:, :, None] * sd[:, None, :])
