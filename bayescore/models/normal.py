r"""Numbers with normal noise of an unknown sd: the posterior of sds and correlations, all else integrated out.

`models.normal` has its mode under flat priors of coefficients and of log sigma, where log det P and the term of m are
left out; `samplers.normal` draws from it.

With coefficients beta ~ N(m, P^-1), effects u ~ N(0, S) of all group terms, W the sum of weights,

.. math:: \log p(y | \sigma, S) = -\tfrac12 \Big[ W \log 2 \pi \sigma^2 + \log\det H - \log\det P + \log\det S
          + r' r / \sigma^2 + (\hat\beta - m)' P (\hat\beta - m) + \hat u' S^{-1} \hat u \Big]

H is the precision of coefficients and effects given the sds, (\hat\beta, \hat u) their mean and r the residuals there.
Without groups that is a function of sigma alone. Given sds, coefficients and effects are normal: c + e with
e ~ N(0, H) in place of the gradient c at 0 gives a draw H^-1 (c + e) (Papandreou and Yuille 2010, Gaussian sampling by
local perturbations). Sums of rows tell all of it as all rows do.

Priors: half Student t of sds, LKJ of correlations, whose partial correlations are independent (Lewandowski, Kurowicka
and Joe 2009, Generating random correlation matrices based on vines and extended onion method).

The sd of normal noise that rows tell: the mode of its restricted likelihood, all effects integrated out.

It is the unit of a coreset whose posterior has the sd as a parameter. With coefficients of a flat prior, and W the sum
of weights, sd^2 = r^2 / (W - p) without groups, r^2 the least sum of squares of residuals. With groups it is the mode
of `models.normal.GroupSdPosterior` under flat priors of coefficients and of log sd (Patterson and Thompson 1971), and
the default priors of sds and correlations of effects: none is then 0 where rows say little about it. Sums of rows tell
it as all rows do. See Bates, Maechler, Bolker and Walker (2015), Fitting linear mixed-effects models using lme4,
Journal of Statistical Software 67.

By the curvature at the mode log sd has the standard error 1 / sqrt(2 nu), nu degrees of freedom: W - p without groups,
fewer with effects.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse

from bayescore.data.coreset import Coreset
from bayescore.families.family import check_family
from bayescore.models.groups.rows import Curvature, JointRows
from bayescore.numerics.elementary import cumulative_shares
from bayescore.priors import Prior
from bayescore.priors.groups import LKJ_ETA, GroupPrior, group_prior_for, log_sigma_terms
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


_STEP = 1e-3  # of log sds, then of about posterior sds, for slopes


_WIDE_STEP = 0.1  # of the same, for second differences


_SMALL = 1e-5  # of the sd from which sigma is sought


_NEAR = 0.05  # slope at the mode in nats for a posterior sd, before a last step


_LEAST_CURVATURE = 0.1  # of log sds: where rows say nothing their prior does


_LOWER = math.log(3.0)  # steps of log sigma in search of where to begin


_RANK = 1e-10  # of the largest singular value of columns of one length, or of the sd of a column that stands still


NO_NOISE = (
    "the responses have no noise: columns, or groups, tell them to rounding; look for a column that is y under another "
    "name, or give the sd, as in family='normal(2.5)'"
)


@dataclass(frozen=True, eq=False)
class WhitenedRows:
    """Rows X, shape (n, p), of coefficients v ~ N(0, I), beta = m + R^-1 v, and y less X m; weights w, (n,).

    Under a flat prior v has the precision 0, columns of X are orthonormal by the weights, and y is their residual.
    """

    X: FloatArray
    y: FloatArray
    w: FloatArray
    mean: FloatArray
    root: FloatArray  # R, upper triangular
    precision: float = 1.0  # of v

    @classmethod
    def of(cls, rows: WeightedData, prior: Prior) -> "WhitenedRows":
        """Return rows of numbers, given a normal prior of their coefficients."""
        none = np.zeros(rows.n_features)
        P = prior.precision(none)
        root = np.linalg.cholesky(P).T
        mean = linalg.cho_solve((root, False), prior.gradient(none))
        X = linalg.solve_triangular(root, rows.X.T, trans="T").T
        return cls(X, -rows.offsets - rows.X @ mean, rows.weights, mean, np.asarray(root, dtype=np.float64))

    @classmethod
    def flat(cls, rows: WeightedData) -> "WhitenedRows":
        """Return rows of numbers whose coefficients have a flat prior; columns that depend on others are left out."""
        root = np.sqrt(rows.weights)
        X, y = root[:, None] * rows.X, -root * rows.offsets
        size = np.abs(X).max(axis=0, initial=0.0)
        X = X[:, size > 0.0] / size[size > 0.0]
        basis = X
        if X.shape[1]:
            U, values, _ = np.linalg.svd(X / np.sqrt((X**2).sum(axis=0)), full_matrices=False)
            basis = U[:, values > _RANK * values[0]]
        for _ in range(2):  # the second time for rounding
            y = y - basis @ (basis.T @ y)
        p = basis.shape[1]
        return cls(basis / root[:, None], y / root, rows.weights, np.zeros(p), np.eye(p), precision=0.0)

    def beta(self, v: FloatArray) -> FloatArray:
        """Return coefficients, shape (S, p), at v."""
        return np.asarray(self.mean + linalg.solve_triangular(self.root, v.T).T)


@dataclass(frozen=True, eq=False)
class NoiseSdPosterior:
    """The posterior of sigma without groups, coefficients integrated out.

    M = sqrt(w) X has the singular value decomposition U s V', and sqrt(w) y = U g + rest.
    """

    rows: WhitenedRows
    s: FloatArray  # (p,)
    V: FloatArray
    g: FloatArray
    rest: float  # sum of squares
    sd_prior: GroupPrior

    @classmethod
    def of(cls, data: WeightedData, prior: Prior, sd_prior: GroupPrior) -> "NoiseSdPosterior":
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
        return points, cumulative_shares(self.log_densities(points))

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return n independent draws of the coefficients, shape (n, p), and of sigma, (n,)."""
        points, share = self.grid
        sd = np.exp(np.interp(rng.random(n), share, points))
        variance = (sd**2)[:, None]
        t = self.s * self.g / (variance + self.s**2)
        t += rng.standard_normal(t.shape) * np.sqrt(variance / (variance + self.s**2))
        return self.rows.beta(t @ self.V.T), sd


class SdMode(NamedTuple):
    """The mode of sds and correlations in the coordinates of `GroupSdPosterior`, (k,), and the covariance, (k, k)."""

    point: FloatArray
    covariance: FloatArray


class GroupSds(NamedTuple):
    """Sds and correlations at n points: sigma, (n,), and the factors B of each factor's covariances B B', (n, q, q)."""

    sd: FloatArray
    factors: list[FloatArray]


@dataclass(frozen=True, eq=False)
class GroupSdPosterior:
    """The posterior of sigma and of sds and correlations of effects, coefficients and effects integrated out.

    A point has log sigma, and for each factor log sds and Fisher's z of partial correlations. Under flat priors of
    coefficients and of log sigma it is the restricted likelihood times the priors of effects.
    """

    rows: JointRows
    flat: WhitenedRows
    columns: sparse.csr_array  # of coefficients and effects, (n, p + E)
    curvature: Curvature  # of the log-likelihood for sigma = 1
    cross: FloatArray | None  # of it, (G, q, m), where that is no large array: then many points go together
    pull: FloatArray  # of y on coefficients and effects, (p + E,)
    priors: tuple[GroupPrior, GroupPrior | None]  # of sds of effects and of the noise

    @classmethod
    def of(
        cls, core: Coreset, prior: Prior | None, group_prior: GroupPrior, sd_prior: GroupPrior | None
    ) -> "GroupSdPosterior":
        """Return the posterior of a coreset of numbers; None is a flat prior, of coefficients or of log sigma."""
        rows = JointRows.of(core)
        flat = WhitenedRows.flat(rows.rows) if prior is None else WhitenedRows.of(rows.rows, prior)
        columns = sparse.hstack([sparse.csr_array(flat.X), rows.columns], format="csr")
        curvature, (G, q) = rows.curvature(flat.w, flat.X), rows.shapes[0]
        cross = curvature.cross.toarray().reshape(G, q, -1) if math.prod(curvature.cross.shape) <= _DENSE else None
        return cls(rows, flat, columns, curvature, cross, columns.T @ (flat.w * flat.y), (group_prior, sd_prior))

    @property
    def seconds_per_density(self) -> float:
        """About how long a log density takes, by sizes alone, so that draws do not depend on the machine."""
        (G, q), m, rows = self.rows.shapes[0], len(self.curvature.rest), len(self.flat.w)
        if self.cross is not None:
            return 5e-8 * rows + 1e-8 * G * q * (m + 10 * q) + 1e-9 * G * q * m**2 + 1e-10 * m**3
        return 5e-4 + 3e-7 * G * q**2 + 1e-7 * self.curvature.cross.nnz + 3e-11 * m**3

    def unpack(self, points: FloatArray) -> GroupSds:
        """Return sds and correlations at points, shape (n, k)."""
        factors, at, n = [], 1, len(points)
        for factor in self.rows.factors:
            q, (firsts, _) = len(factor.effects), factor.block_ends.T
            sd, z = np.exp(points[:, at : at + q]), np.tanh(points[:, at + q : at + q + len(factor.pairs[0])])
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
        of_effects, of_noise = self.priors
        total, at = np.zeros(len(points)) if of_noise is None else _log_sigma(points[:, 0], of_noise), 1
        for factor in self.rows.factors:
            q = len(factor.effects)
            for sd in points.T[at : at + q]:
                total += _log_sigma(sd, of_effects)
            at += q
            for i, (first, end) in enumerate(factor.block_ends):
                for j in range(first, i):
                    shape = LKJ_ETA + 0.5 * (end - 2 - j)
                    total -= 2.0 * shape * np.logaddexp(points[:, at], -points[:, at])
                    at += 1
        return total

    def _solve(self, sds: GroupSds, turns: list[FloatArray], pulls: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log determinants of sigma^2 H, (n,), and what solves it for the right hand sides, (n, p + E)."""
        square, p, shapes = sds.sd[:, None, None] ** 2, self.flat.X.shape[1], self.rows.shapes
        of_beta = self.flat.precision * square[:, 0]
        precisions = [square * turn.transpose(0, 2, 1) @ turn for turn in turns]
        log_det, x, (G, q) = np.empty(len(pulls)), np.empty(pulls.shape), shapes[0]
        first, rest = slice(p, p + G * q), np.r_[:p, p + G * q : pulls.shape[1]]
        step = max(1, _PIECE // (G * q * len(rest) + len(rest) ** 2)) if self.cross is not None else 1
        for start in range(0, len(pulls), step):
            cut = slice(start, start + step)
            P, of_first = [each[cut] for each in precisions], pulls[cut, first].reshape(-1, G, q)
            if self.cross is None:
                blocks = [np.broadcast_to(each[0], (H, r, r)) for each, (H, r) in zip(P, shapes, strict=True)]
                solver = self.curvature.solver(of_beta[start] * np.eye(p), blocks)
                u, move = solver.solve(of_first[0], pulls[start, rest])
                log_det[cut] = np.linalg.slogdet(solver.D)[1].sum() + 2.0 * np.log(np.diagonal(solver.factor)).sum()
                x[cut, first], x[cut, rest] = u.ravel(), move
                continue
            D = self.curvature.first + P[0][:, None]
            inverse = 1.0 / D if q == 1 else np.linalg.inv(D)
            W = inverse * self.cross if q == 1 else inverse @ self.cross  # (n, G, q, m)
            schur = self.curvature.rest - self.cross.reshape(G * q, -1).T @ W.reshape(len(W), G * q, -1)
            schur[:, np.arange(p), np.arange(p)] += of_beta[cut]
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

    def _split(self, x: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """Return v, shape (n, p), and effects, (n, G, q) each, of vectors (n, p + E)."""
        ends = np.cumsum([self.flat.X.shape[1], *(G * q for G, q in self.rows.shapes)])[:-1]
        v, *effects = np.split(x, ends, axis=1)
        return v, [u.reshape(len(x), *shape) for u, shape in zip(effects, self.rows.shapes, strict=True)]

    def log_densities(self, points: FloatArray) -> FloatArray:
        """Return the log density of points, shape (n,), -inf where it is beyond numbers."""
        middle = math.log(self.priors[0].sigma)
        far = np.abs(points[:, ~self._correlations] - middle).max(axis=1) > _FARTHEST
        far |= np.abs(points[:, self._correlations]).max(axis=1, initial=0.0) > 0.3 * _FARTHEST
        values = np.full(len(points), -np.inf)
        values[~far] = self._in_range(points[~far])
        return np.where(np.isfinite(values), values, -np.inf)

    def _in_range(self, points: FloatArray) -> FloatArray:
        sds = self.unpack(points)
        turns = [np.asarray(np.linalg.inv(B)) for B in sds.factors]
        try:
            log_det, x = self._solve(sds, turns, np.repeat(self.pull[None], len(points), axis=0))
        except (DataError, np.linalg.LinAlgError):
            if len(points) == 1:
                return np.full(1, -np.inf)
            return np.concatenate([self._in_range(point[None]) for point in points])
        (v, effects), w = self._split(x), self.flat.w
        gaps = self.flat.y - (self.columns @ x.T).T
        square = (gaps**2 @ w) / sds.sd**2 + self.flat.precision * (v**2).sum(axis=1)
        logs = log_det + float(w.sum()) * _LOG_2PI + (float(w.sum()) - len(self.pull)) * 2.0 * points[:, 0]
        for B, turn, u in zip(sds.factors, turns, effects, strict=True):
            square += ((u @ turn.transpose(0, 2, 1)) ** 2).sum(axis=(1, 2))
            logs += 2.0 * u.shape[1] * np.log(np.einsum("nqq->nq", B)).sum(axis=1)
        return np.asarray(self.log_priors(points) - 0.5 * (square + logs))

    def draw_effects(self, points: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, list[FloatArray]]:
        """Return a draw of coefficients, shape (n, p), and of each factor's effects, (n, G, q), at each point."""
        assert self.flat.precision == 1.0
        sds, n = self.unpack(points), len(points)
        turns = [np.asarray(np.linalg.inv(B)) for B in sds.factors]
        of_rows = np.sqrt(self.flat.w) * rng.standard_normal((n, len(self.flat.w))) * sds.sd[:, None]
        more = [rng.standard_normal((n, self.flat.X.shape[1]))]
        for turn, shape in zip(turns, self.rows.shapes, strict=True):
            more.append((rng.standard_normal((n, *shape)) @ turn).reshape(n, -1))
        pulls = self.pull + (self.columns.T @ of_rows.T).T + sds.sd[:, None] ** 2 * np.concatenate(more, axis=1)
        v, effects = self._split(self._solve(sds, turns, pulls)[1])
        return self.flat.beta(v), effects

    @cached_property
    def _correlations(self) -> NDArray[np.bool_]:
        parts = [[False] * len(factor.effects) + [True] * len(factor.pairs[0]) for factor in self.rows.factors]
        return np.array([False, *(each for part in parts for each in part)])

    @cached_property
    def log_sds(self) -> dict[str, slice]:
        """Where a point has the log sds of each factor, by its name."""
        factors, start = {}, 1
        for factor in self.rows.factors:
            factors[factor.name] = slice(start, start + len(factor.effects))
            start += len(factor.parameters)
        return factors

    def starting_point(self, sd: float) -> FloatArray:
        """Return where a search begins, given sigma: effects on columns about their means are half of it, independent.

        With z = t T, t such columns, and effects of sds s on these, the covariance of effects on z is T^-1 s^2 T^-'.
        """
        w, point = self.flat.w, [math.log(sd)]
        for factor, z in zip(self.rows.factors, self.rows.z, strict=True):
            q, (firsts, ends) = len(factor.effects), factor.block_ends.T
            inverse, columns = np.eye(q), z
            if "1" in factor.effects:
                i = factor.effects.index("1")
                mean = (w * z[:, i]) @ z / (w @ z[:, i] ** 2)
                mean[i] = mean[: firsts[i]] = mean[ends[i] :] = 0.0
                columns = z - np.outer(z[:, i], mean)
                inverse[i] -= mean
            size, least = (np.sqrt(w @ each**2 / w.sum()) for each in (columns, z))
            size = np.maximum(size, np.maximum(_RANK * least, np.finfo(float).tiny))
            B = np.linalg.cholesky((inverse * (_FIRST * sd / size) ** 2) @ inverse.T)
            sds = np.sqrt((B**2).sum(axis=1))
            L = B / sds[:, None]
            left = 1.0 - np.cumsum(L**2, axis=1) + L**2  # of the variance, before each column
            partial = [L[i, j] / math.sqrt(left[i, j]) for i in range(q) for j in range(firsts[i], i)]
            point += [*np.log(sds), *np.arctanh(partial)]
        return np.array(point)

    def find_mode(self, sd: float) -> "SdMode":
        """Return the mode, sought from a sigma that is not too small, and about the covariance there.

        0. Sigma is lowered from `sd` while the density rises, as effects may be far larger than the noise.

        1. Coordinates x are scaled by the curvatures of the density there, each alone.

        2. Quasi-Newton steps (BFGS) with slopes by differences, as densities of many points together cost less.

        3. Second differences, which end the search with a step of Newton's.

        Raises
        ------
        DataError
            If coefficients and effects leave no noise but rounding.
        """
        # 0.
        point, k = self.starting_point(sd), self._correlations.size
        lower, value = _LOWER * np.eye(k)[0], float(self.log_densities(point[None])[0])
        while (below := float(self.log_densities((point - lower)[None])[0])) > value:
            point, value = point - lower, below
        if below == -np.inf:  # the density rises until the precision is singular but for rounding
            raise DataError(NO_NOISE)
        # 1.
        scale, worst = np.ones(k), 1e6 - value

        def losses(x: FloatArray) -> FloatArray:
            return np.minimum(-self.log_densities(point + x * scale), worst)

        steps = _STEP * np.eye(k)
        around = losses(np.vstack([np.zeros(k), steps, -steps]))
        bends = (around[1 : k + 1] + around[k + 1 :] - 2.0 * around[0]) / _STEP**2
        scale = 1.0 / np.sqrt(np.maximum(np.abs(bends), _LEAST_CURVATURE))

        # 2.
        def descent(x: FloatArray) -> tuple[float, FloatArray]:
            value, *others = losses(np.vstack([x, x + steps]))
            return float(value), (np.array(others) - value) / _STEP

        x = optimize.minimize(descent, np.zeros(k), jac=True, method="BFGS", options={"gtol": _NEAR}).x
        # 3. along each coordinate, and along two at a time
        wide = _WIDE_STEP * np.eye(k)
        i, j = np.tril_indices(k, -1)
        ways = np.vstack([wide, wide[i] + wide[j]])
        ahead, back = losses(np.vstack([x + ways, x - ways])).reshape(2, -1)
        second = (ahead + back - 2.0 * losses(x[None])) / _WIDE_STEP**2
        H = np.diag(second[:k])
        H[i, j] = H[j, i] = 0.5 * (second[k:] - second[i] - second[j])
        values, turn = np.linalg.eigh(H / np.outer(scale, scale))
        covariance = (turn / np.maximum(values, _LEAST_CURVATURE)) @ turn.T
        slope = (ahead - back)[:k] / (2.0 * _WIDE_STEP * scale)
        if slope @ covariance @ slope > 1.0 and point[0] < math.log(_SMALL * sd):  # rounding hides the mode
            raise DataError(NO_NOISE)
        ends = np.vstack([x, x - covariance @ slope / scale])
        return SdMode(point + ends[np.argmin(losses(ends))] * scale, covariance)


def _log_sigma(log_sd: FloatArray, prior: GroupPrior) -> FloatArray:
    return np.array([log_sigma_terms(each, *prior.table)[0] for each in log_sd])


def correlations_of(B: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return sds, shape (n, q), and correlations, (n, q, q), given factors of covariances, (n, q, q)."""
    S = B @ B.transpose(0, 2, 1)
    sd = np.sqrt(np.einsum("nqq->nq", S))
    return sd, S / (sd[:, :, None] * sd[:, None, :])


_DIGITS = 6  # of the sd: a ten thousandth of its standard error for 1e6 rows


_ROUNDING = 1e-12  # of responses


@dataclass(frozen=True)
class NoiseEstimate:
    """The sd of the noise, and the standard error of its logarithm."""

    sd: float
    log_se: float

    def params(self) -> dict[str, float]:
        """Return what a coreset keeps."""
        return {"sd": self.sd, "sd_se": self.sd * self.log_se, "sd_freedom": 0.5 / self.log_se**2}


def find_noise(core: Coreset) -> NoiseEstimate:
    """Return the estimated sd of the noise of rows of numbers, or of their sums, and the standard error of its log."""
    rows, largest = WhitenedRows.flat(core), float(np.abs(core.offsets).max())
    weight, p = float(rows.w.sum()), rows.X.shape[1]
    if weight - p < 1.0:
        raise DataError(
            f"family='normal' seeks the sd of the noise, and rows of the weight {weight:g} do not tell it beside {p} "
            "coefficients: a row of weight w counts as w rows; give more rows, weights with the mean 1, or the sd, as "
            "in 'normal(2.5)'"
        )
    sd, log_se = math.sqrt(rows.w @ rows.y**2 / (weight - p)), math.sqrt(0.5 / (weight - p))
    if core.group is not None and sd > _ROUNDING * largest:
        target = GroupSdPosterior.of(core, None, group_prior_for(None, core, check_family("normal", seek=True)), None)
        point, covariance = target.find_mode(sd)
        sd, log_se = math.exp(point[0]), math.sqrt(covariance[0, 0])
    if sd <= _ROUNDING * largest:
        raise DataError(NO_NOISE)
    return NoiseEstimate(float(f"{sd:.{_DIGITS}g}"), log_se)
