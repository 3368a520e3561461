r"""Stein's identities, which say whether draws have the density that they are said to have.

With g the gradient of the density's logarithm at theta, draws of it satisfy, for any bounded smooth field f,

.. math:: \mathrm E\, [f \cdot g + \nabla \cdot f] = 0

Here f = c_i(theta) h(z_j) k_i, with k_i column i of K, near the covariance, over its sd; z the draws in their own sds,
d in those of K; and h = 1, z / (1 + z^2 / 8) or z^2 / (1 + z^2 / 8). With R the correlations of K, s_i = k_i . g and
a_i = c_i s_i + k_i . grad c_i,

.. math:: \mathrm E\, a_i = 0, \qquad \mathrm E\, [-h(z_j) a_i] = R_{ij} \mathrm E\, [c_i h'(z_j)] / d_j.

Were c = 1 and h = z, mean(s) would say how far the draws' mean is off, the others how far variances and correlations
are. The draws' sds stay out of k_i: with columns that are nearly collinear it would leave the direction in which they
cancel. All pairs are needed: K g = -(theta - m) of a normal density says nothing about correlations where i = j. Where
coordinates are correlated the same is asked of each given those before it, whose sds are small; these lie apart, so
that their means together tell a shift in any direction.

`Damping` gives c, which is small where the rows are steep: beside a wall, where a rare column separates rows, a few
draws in ten thousand would else hold the identity up. c is 1 along directions whose curvature hardly changes within
the posterior, most of them where rows are many. Each may miss by `NEGLIGIBLE_ERROR` and by what Monte Carlo error
explains.

Gradients of the log marginal posterior, effects of groups integrated out, from draws that have the effects.

Let t be (beta, log sigma, Fisher's z of rho) and u the effects. For any field f(t, u) that moves u with t,

.. math:: s_j = \partial_{t_j} \log p(t, u) + f_j \cdot \partial_u \log p(t, u) + \partial_u \cdot f_j

has, given t, the mean of the marginal gradient (Fisher's identity, and integration by parts). So Stein's identities
hold for s. f changes its noise alone. With H minus the Hessian of the rows' log p by u, at the draws' mean, and
V = (H_g + S^-1)^-1 of a level,

.. math:: f_\beta = -(H + \bar S^{-1})^{-1} B, \quad B = -\partial_u \partial_\beta' \log p, \qquad
          f_j = \tfrac12 V S^{-1} \dot S_j S^{-1} (u + \bar u)

leave little of it: nothing where p(u | t) is normal and there is one factor.

References
----------
Stein (1972), Proc. Sixth Berkeley Symp. 2, 583-602. Gorham and Mackey (2015), Measuring sample quality with Stein's
method, NeurIPS. Satterthwaite (1946), An approximate distribution of estimates of variance components, Biometrics
Bulletin 2.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special
from scipy.sparse.linalg import splu

from bayescore.families import Family
from bayescore.limits import MIN_ESS, NEGLIGIBLE_ERROR
from bayescore.models.groups.rows import blocks_of
from bayescore.models.predictor import Factor, Predictor
from bayescore.models.row_kernels import derivatives_of, largest_curvature, log_p_and_score
from bayescore.numerics.chains import ess, ess_and_mcse, evenly_spaced
from bayescore.numerics.moments import sidak_quantile
from bayescore.priors import Prior
from bayescore.priors.groups import LKJ_ETA, GroupPrior, log_sigma_terms
from bayescore.text import number
from bayescore.types import FloatArray, IntArray, WeightedData

STEIN_DRAWS = 2000  # whose gradients are computed: an sd is told to 4% beyond Monte Carlo error, in most posteriors


_WORK = 200_000_000  # numbers of rows, or of effects, at all these draws together


_BOUND = 8.0  # square of the sds beyond which a draw's part is damped


_STEEP = 2.0  # times the curvature at the median, from which a direction is damped


_WITHIN = 4.0  # sds of a row's predictor within which its largest curvature counts


_TILE = 1 << 18  # numbers of a tile of rows: 2 MB


_JITTER = 1e-10  # of correlations, so that those of 1 have a factor


def enough_draws(n_rows: int, n_effects: int = 0) -> int:
    """Return how many draws to look at: `STEIN_DRAWS`, fewer where rows or effects are so many that it takes long."""
    return max(min(STEIN_DRAWS, _WORK // max(n_rows, 10 * n_effects)), MIN_ESS)


@dataclass(frozen=True, eq=False)
class Damping:
    """Factors c_i = 1 / (1 + (s_i - median)^2 / 8), s_i the slope of the rows' log p along k_i at a draw of beta.

    Where the curvature along k_i stays within `_STEEP` times that at the median, whatever a row's curvature is within
    `_WITHIN` sds of its predictor, s_i is bounded as normal draws are, and c_i is 1.
    """

    beta: FloatArray  # (S, D)
    scores: FloatArray  # gradients of the rows' log p there, (S, D)
    rows: WeightedData
    family: Family

    def __call__(self, directions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return c and its slope along k_i, the columns of `directions`, (D, k); shape (S, k) each.

        The last D columns span the posterior: the sum of squares along them is the variance of a predictor.
        """
        c, bent = np.ones((len(self.beta), directions.shape[1])), np.zeros((len(self.beta), directions.shape[1]))
        steep = self._steep_directions(directions)
        if not steep.any():
            return c, bent
        directions = directions[:, steep]
        slope = self.scores @ directions
        bend = np.zeros_like(slope)
        for start in range(0, len(self.rows), step := max(1, _TILE // len(self.beta))):
            rows = self.rows.take(slice(start, start + step))
            eta = rows.with_offset(rows.X @ self.beta.T)
            curvatures = derivatives_of(eta.ravel(), np.repeat(rows.y, len(self.beta)), self.family)[2]
            bend -= (rows.weights[:, None] * curvatures.reshape(eta.shape)).T @ (rows.X @ directions) ** 2
        slope -= np.median(slope, axis=0)
        c[:, steep] = 1.0 / (1.0 + slope**2 / _BOUND)
        bent[:, steep] = -2.0 / _BOUND * c[:, steep] ** 2 * slope * bend
        return c, bent

    def _steep_directions(self, directions: FloatArray) -> NDArray[np.bool_]:
        """Return along which directions, shape (k,), the curvature may change much within the posterior."""
        middle, (D, k) = np.median(self.beta, axis=0), directions.shape
        steepness, most = np.zeros(k), np.zeros(k)
        step = max(1, _TILE // k)
        for start in range(0, len(self.rows), step):
            rows = self.rows.take(slice(start, start + step))
            squares = (rows.X @ directions) ** 2
            eta, move = rows.with_offset(rows.X @ middle), _WITHIN * np.sqrt(squares[:, k - D :].sum(axis=1))
            steepness += (rows.weights * np.abs(derivatives_of(eta, rows.y, self.family)[2])) @ squares
            most += (rows.weights * largest_curvature(eta, rows.y, move, self.family)) @ squares
        return np.asarray(most > _STEEP * steepness)


def stein(
    chains: FloatArray,
    gradients: FloatArray,
    K: FloatArray,
    names: list[str],
    damping: Damping | None = None,
    *,
    parts: int = 1,
) -> str:
    """Return how draws, shape (chain, draw, P), miss Stein's identities, given their log density's gradients.

    `damping` is that of the first coordinates, those of beta. `parts` is how many such sets of coordinates are checked,
    at one false alarm rate for all.
    """
    P, width = len(K), np.sqrt(np.diagonal(K))
    R = K / np.outer(width, width)
    fields = [_Field.of(chains, np.diag(width), R, names)]
    if np.abs(R - np.eye(P)).max() > 0.0:
        axes = width[:, None] * np.linalg.cholesky(R + _JITTER * np.eye(P))
        labels = [names[0], *(f"{name} given those before it" for name in names[1:])]
        fields.append(_Field.of(chains, axes, np.eye(P), labels))
    D, both = 0, np.empty((2, len(chains), chains.shape[1], 0))
    if damping is not None:
        D = damping.beta.shape[1]
        c, slope = damping(np.hstack([field.directions[:D, :D] for field in fields]))
        both = np.stack([c, slope]).reshape(*both.shape[:3], -1)
    for k, field in enumerate(fields):
        missed = field.missed(gradients, both[..., k * D : (k + 1) * D], parts * len(fields))
        if missed:
            return missed
    return ""


@dataclass(frozen=True, eq=False)
class _Field:
    """Coordinates x, shape (chain, draw, P), and the fields k_i: columns of `directions`, and in x those of R."""

    x: FloatArray
    R: FloatArray
    directions: FloatArray
    names: list[str]

    @property
    def apart(self) -> bool:
        """Whether the fields move one coordinate each."""
        return bool(np.array_equal(self.R, np.eye(len(self.R))))

    @classmethod
    def of(cls, chains: FloatArray, axes: FloatArray, R: FloatArray, names: list[str]) -> "_Field":
        """Return the coordinates along `axes`, columns of shape (P,), whose correlations are about R."""
        x = chains @ np.linalg.inv(axes).T
        return cls(x, R, axes @ R, names)

    def missed(self, gradients: FloatArray, damped: FloatArray, parts: int) -> str:
        """Return how these miss the identities; `damped` are c and its slope along k_i, of the first coordinates."""
        sds, s = self.x.std(axis=(0, 1), ddof=1), gradients @ self.directions
        z = (self.x - self.x.mean(axis=(0, 1))) / sds
        P, D, n = z.shape[2], damped.shape[3], z.shape[0] * z.shape[1]
        quantile = sidak_quantile(parts * (2 * P + P * (P + 1) // 2 + 2))
        c = np.ones_like(s)
        c[..., :D] = damped[0]
        a = c * s
        a[..., :D] += damped[1]
        far = z**2 / _BOUND
        within = 1.0 / (1.0 + far)
        h, slope, typical = z * within, within**2 / sds, c.mean(axis=(0, 1))
        dh, bent = (1.0 - far) * slope, z * (h * a + 2.0 * c * slope)
        units = {"mean": sds * a / typical, "skewness": sds * bent / typical}  # in sds of the draws
        said = _by_mean(units, quantile, self.names, apart=self.apart)
        said = said or _by_variance(-h * a, c * dh, quantile, self.names)
        if said or P == 1:
            return said
        flat = [each.reshape(n, P) for each in (a, c, h, dh)]
        return _by_correlation(flat, self.R, (np.minimum(ess(h * a, "mean"), n), quantile), self.names)


def _error(summands: FloatArray) -> FloatArray:
    """Return the standard error of the mean of summands, shape (chain, draw, k)."""
    size, error = ess_and_mcse(summands)
    return np.asarray(error * np.sqrt(np.maximum(size / (summands.shape[0] * summands.shape[1]), 1.0)))


def _by_mean(units: dict[str, FloatArray], quantile: float, names: list[str], *, apart: bool) -> str:
    """Return how means miss one by one, and of coordinates that lie `apart` in any direction, or skewness."""
    off = {what: unit.mean(axis=(0, 1)) for what, unit in units.items()}
    error = {what: _error(unit) for what, unit in units.items()}
    for what in units:
        excess = np.abs(off[what]) - quantile * error[what] - NEGLIGIBLE_ERROR
        if (excess > 0.0).any():
            i = int(excess.argmax())
            return f"the {what} of {names[i]!r} misses Stein's identity by {number(abs(off[what][i]), 2)} sd."
    if not apart:
        return ""
    length, noise = float(np.linalg.norm(off["mean"])), error["mean"]
    covariance = np.corrcoef(units["mean"].reshape(-1, len(noise)).T) * np.outer(noise, noise)
    # |off|^2 has the mean and the variance of g chi^2 of some degrees of freedom (Satterthwaite 1946)
    total, squares = (noise**2).sum(), (covariance**2).sum()
    chance = math.sqrt(squares / total * special.chdtri(total**2 / squares, 2.0 * special.ndtr(-quantile)))
    if length <= chance + NEGLIGIBLE_ERROR:
        return ""
    return f"all means together miss Stein's identity, by {number(length, 2)} sd in some direction."


def _by_variance(left: FloatArray, right: FloatArray, quantile: float, names: list[str]) -> str:
    """Return how variances miss, or their sum: by the logarithm of the ratio of both sides, shape (chain, draw, P)."""
    left, right = (np.concatenate([each, each.sum(axis=2, keepdims=True)], axis=2) for each in (left, right))
    top, bottom = left.mean(axis=(0, 1)), right.mean(axis=(0, 1))
    ratio, scale = top / bottom, np.abs(bottom)
    has_log = (top > 0.0) & (bottom > 0.0)
    off = np.where(has_log, np.abs(np.log(np.where(has_log, ratio, 1.0))), np.abs(top - bottom) / scale)
    error = _error(np.where(has_log, left / top - right / bottom, (left - right) / scale))
    excess = off - quantile * error - NEGLIGIBLE_ERROR
    if not (excess > 0.0).any():
        return ""
    i = int(excess.argmax())
    if not has_log[i]:
        return f"{_variance_name(i, names)} Stein's identity: the draws do not lie about the posterior's mean."
    return f"{_variance_name(i, names)} Stein's identity: the draws' is {number(ratio[i], 2)} times the posterior's."


def _variance_name(i: int, names: list[str]) -> str:
    return "the sum of all variances misses" if i == len(names) else f"the variance of {names[i]!r} misses"


def _by_correlation(parts: list[FloatArray], R: FloatArray, error: tuple[FloatArray, float], names: list[str]) -> str:
    """Return how correlations miss: `parts` are a, c, h and h', `error` effective sizes and the quantile."""
    a, c, h, dh = parts
    n, size, ah = len(a), error[0], a * h
    # y_ij = h_j a_i + R_ij c_i h'_j has the mean 0, and so has (y_ij + y_ji) / 2; products mix like their squares
    typical, mean, square, both = c.T @ dh, a.T @ h, (a**2).T @ h**2, ah.T @ ah
    if not np.array_equal(R, np.eye(len(R))):  # else nothing is added off the diagonal
        cross, slope = (a * dh).T @ (h * c), c * dh
        mean += R * typical
        square += 2.0 * R * ((a * c).T @ (h * dh)) + R**2 * ((c**2).T @ dh**2)
        both += R * (cross + cross.T) + R**2 * (slope.T @ slope)
    scale = 0.5 * np.abs(typical + typical.T)
    gap = 0.5 * (mean + mean.T) / scale
    variance = np.maximum(0.25 * (square + square.T + 2.0 * both) * n / scale**2 - gap**2, 0.0)
    over = np.abs(gap) - error[1] * np.sqrt(variance / np.minimum(size[:, None], size)) - NEGLIGIBLE_ERROR
    np.fill_diagonal(over, -np.inf)
    if not (over > 0.0).any():
        return ""
    i, j = divmod(int(over.argmax()), len(R))
    return f"the correlation of {names[i]!r} and {names[j]!r} misses Stein's identity by {number(abs(gap[i, j]), 2)}."


LEVELS = 100
"""Levels of a factor whose effects are checked one by one, evenly spaced."""


_PIECE = 1 << 21  # numbers of an array of some rows, or some draws, at all draws or levels


class Scores(NamedTuple):
    """Gradients s, shape (S, P), and minus the Hessian of beta by the rows, effects integrated out, shape (p, p).

    `effects` are those of some levels, of unit variance given t, and `effect_scores` their gradients, shape (S, E).
    """

    marginal: FloatArray
    precision: FloatArray
    names: list[str]  # of these effects
    effects: FloatArray
    effect_scores: FloatArray


def scores(predictor: Predictor, core: WeightedData, family: Family, prior: Prior, group_prior: GroupPrior) -> Scores:
    """Return the gradients of the coreset's posterior at draws; `LinAlgError` where effects have no covariance."""
    middle = predictor.means()
    curvature = core.weights * np.maximum(family.curvature(middle.eta(core)[:, 0], core.y), 0.0)
    Z = predictor.columns(core)
    assert predictor.at is not None
    information, first, cuts = (Z.T @ sparse.diags_array(curvature) @ Z).tocsc(), 0, []
    blocks, own_precision = [], []
    for factor, mean in zip(predictor.factors, middle.factors, strict=True):
        assert factor.covariance is not None
        cuts.append(slice(first, first + mean.effects[0].size))
        first = cuts[-1].stop
        inverse = np.linalg.inv(factor.covariance[predictor.at].mean(axis=0))
        own_precision.append(sparse.kron(sparse.eye_array(len(factor.grouping)), inverse))
        blocks.append((mean.effects[0], blocks_of(information[cuts[-1], cuts[-1]], len(inverse)), inverse))
    cross = Z.T @ (curvature[:, None] * core.X)
    move = splu((information + sparse.block_diag(own_precision)).tocsc()).solve(cross)
    precision = (core.X.T * curvature) @ core.X - cross.T @ move
    parts = []
    step = max(1, _PIECE // Z.shape[1])
    for start in range(0, len(predictor), step):
        part = predictor.take(slice(start, start + step)).gathered()
        of_beta, of_u = _row_scores(part, core, family, Z)
        follow = (middle.beta - part.beta) @ move.T  # how effects move with beta
        of_factors = []
        for factor, block, cut in zip(part.factors, blocks, cuts, strict=True):
            assert factor.covariance is not None
            inverse = np.asarray(np.linalg.inv(factor.covariance), dtype=np.float64)
            slope = of_u[cut].T.reshape(factor.effects.shape) - factor.effects @ inverse
            mean, informed, middle_inverse = block
            given = mean + follow[:, cut].reshape(factor.effects.shape)
            precisions = _LevelPrecisions(informed, inverse, middle_inverse)
            of_factors.append(_factor_scores(factor, (mean, given), slope, precisions, group_prior))
            of_u[cut] = slope.reshape(len(slope), -1).T
        marginal, effects, slopes = (np.concatenate(each, axis=1) for each in zip(*of_factors, strict=True))
        of_beta = of_beta + prior.gradient(part.beta) - of_u.T @ move
        parts.append((np.hstack([of_beta, marginal]), effects, slopes))
    marginal, effects, slopes = (np.concatenate(each) for each in zip(*parts, strict=True))
    names = [
        f"u_{each.grouping.name}[{each.grouping.levels[level]}{f', {effect}' * (len(each.grouping.effects) > 1)}]"
        for each in predictor.factors
        for level in checked_levels(len(each.grouping))
        for effect in each.grouping.effects
    ]
    return Scores(marginal, precision, names, effects, slopes)


def _row_scores(
    predictor: Predictor, core: WeightedData, family: Family, Z: sparse.csr_array
) -> tuple[FloatArray, FloatArray]:
    """Return the rows' part of the gradients by beta, shape (S, p), and by the effects, (E, S)."""
    of_beta, of_u = np.zeros_like(predictor.beta), np.zeros((Z.shape[1], len(predictor)))
    step = max(1, _PIECE // len(predictor))
    for start in range(0, len(core), step):
        rows = core.take(slice(start, start + step))
        score = predictor.eta(rows)
        side = np.repeat(rows.y.astype(np.float64), len(predictor))
        log_p_and_score(score.reshape(1, -1), side, family, np.empty((1, score.size)))
        score *= rows.weights[:, None]
        of_beta += score.T @ rows.X
        of_u += Z[start : start + step].T @ score
    return of_beta, of_u


def checked_levels(n_levels: int) -> IntArray:
    """Return the levels of a factor whose effects are checked one by one."""
    return evenly_spaced(n_levels, LEVELS)


class _LevelPrecisions(NamedTuple):
    """H of each level, shape (G, q, q), S^-1 of each draw, (S, q, q), and that of their mean, (q, q)."""

    information: FloatArray
    inverse: FloatArray
    middle: FloatArray


def _times_vectors(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return products of many small matrices, shape (..., q, q), and vectors, (..., q)."""
    return np.asarray(sum(matrices[..., r] * vectors[..., r, None] for r in range(matrices.shape[-1])))


def _inverses(matrices: FloatArray) -> FloatArray:
    """Return inverses of symmetric matrices, shape (..., q, q), a tenth of the time of LAPACK where q is 2."""
    if matrices.shape[-1] != 2:
        return np.asarray(np.linalg.inv(matrices), dtype=np.float64)
    a, b, d = matrices[..., 0, 0], matrices[..., 0, 1], matrices[..., 1, 1]
    inverses = np.stack([d, -b, -b, a], axis=-1) / (a * d - b * b)[..., None]
    return inverses.reshape(matrices.shape)


def _factor_scores(
    factor: Factor, means: tuple[FloatArray, FloatArray], slope: FloatArray, blocks: _LevelPrecisions, prior: GroupPrior
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the gradients of a factor's log sds and z, and effects of some levels with their gradients.

    `means` are those of the effects, shape (G, q), and to first order those given each draw's beta, (S, G, q). Effects
    that the rows tell far better than beta lie about their means given beta. `slope`, (S, G, q), is the gradient of log
    p by them. It is multiplied by V of each draw over V of the draws' mean, so that f_beta, which is of the mean,
    becomes each draw's.
    """
    n_draws, G, q = factor.effects.shape
    S, levels = factor.covariance, checked_levels(G)
    assert S is not None
    precision = blocks.information + blocks.middle
    mean, given = means
    pull = np.einsum("gqr,gr->gq", precision, mean)
    M, effects, slopes = np.empty_like(S), [], []
    step = max(1, _PIECE // (G * q * q))
    for start in range(0, n_draws, step):
        at = slice(start, start + step)
        u, V = factor.effects[at], _inverses(blocks.information + blocks.inverse[at, None])
        center, moved, across = _times_vectors(V, pull), _times_vectors(V, slope[at]), u.transpose(0, 2, 1)
        M[at] = across @ u + V.sum(axis=1) + moved.transpose(0, 2, 1) @ (u + center)
        root = np.linalg.cholesky(V[:, levels])
        about = u - center - (given[at] - mean)
        effects.append(np.linalg.solve(root, about[:, levels, :, None]).reshape(len(u), -1))
        slopes.append(np.einsum("sgqr,sgq->sgr", root, slope[at][:, levels]).reshape(len(u), -1))
        slope[at] = _times_vectors(precision, moved)
    Q = blocks.inverse @ (M - G * S) @ blocks.inverse
    Q = 0.5 * (Q + Q.transpose(0, 2, 1))
    sd = np.sqrt(np.diagonal(S, axis1=1, axis2=2))
    of_sd = np.einsum("sqr,srq->sq", S, Q)
    of_sd += [[log_sigma_terms(each, *prior.table)[1] for each in draw] for draw in np.log(sd)]
    i, j = factor.grouping.pairs
    R = S / (sd[:, :, None] * sd[:, None])
    rho = R[:, i, j]
    of_z = (1.0 - rho**2) * (sd[:, i] * sd[:, j] * Q[:, i, j] + 2.0 * (LKJ_ETA - 1.0) * np.linalg.inv(R)[:, i, j])
    return np.concatenate([of_sd, of_z - 2.0 * rho], axis=1), np.concatenate(effects), np.concatenate(slopes)
