r"""The sd of normal noise that rows tell: the mode of its restricted likelihood, all effects integrated out.

Sds of effects over that of the noise have their default prior, so that none is 0 where rows say little about it.

With coefficients of a flat prior, effects u ~ N(0, sd^2 L) of all group terms, and W the sum of weights,

.. math:: -2 \log p(y | \mathrm{sd}, L) = (W - p) \log \mathrm{sd}^2 + r^2(L) / \mathrm{sd}^2
          + \log\det H(L) + \log\det L

H is the precision of coefficients and effects together for sd = 1, r^2 the least sum of squares of residuals and of
effects by L (Patterson and Thompson 1971; Bates, Maechler, Bolker and Walker 2015, Fitting linear mixed-effects models
using lme4, Journal of Statistical Software 67). Sums of rows tell it as all rows do. sd^2 = r^2(L) / (W - p) at the
best L; without groups that is the closed form.

It is the unit of a coreset whose posterior has the sd as a parameter. By the curvature at the mode log sd has the
standard error 1 / sqrt(2 nu), nu degrees of freedom: W - p without groups, fewer with effects.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import optimize

from bayescore.data.coreset import Coreset
from bayescore.families.family import check_family
from bayescore.models.groups.rows import JointRows, Solver
from bayescore.priors.groups import group_prior_for, log_sigma_terms
from bayescore.types import FloatArray
from bayescore.validation import DataError

_RANK = 1e-10  # of the largest singular value, of columns of one length
_DIGITS = 6  # of the sd: a ten thousandth of its standard error for 1e6 rows
_LEAST, _MOST = 1e-4, 1e10  # sd of an effect, over that of the noise, in columns of scale 1
_LARGE = 1e5  # the same, from which a mode that rounding hides is taken to be no mode
_BEYOND = 50.0  # its logarithm, that no step is to reach
_FIRST = 0.5
_FAR_OFF = 1e6  # in place of the objective where that is not known
_STEP = 1e-3  # of logarithms, for differences of gradients
_LEAST_CURVATURE = 0.5  # of log sds of effects: where rows say nothing their prior does
_NEAR = 0.05  # standard errors by which the mode may be off
_ROUNDING = 1e-12  # of responses
_NO_NOISE = (
    "the responses have no noise: columns, or groups, tell them to rounding; look for a column that is y under another "
    "name, or give the sd, as in family='normal(2.5)'"
)


@dataclass(frozen=True)
class NoiseEstimate:
    """The sd, the standard error of its logarithm, and by how much that of an effects' sd moves with it, by name."""

    sd: float
    log_se: float
    moves: dict[str, float] = field(default_factory=dict)

    @property
    def freedom(self) -> float:
        """Degrees of freedom."""
        return 0.5 / self.log_se**2

    def params(self) -> dict[str, float]:
        """Return what a coreset keeps."""
        return {"sd": self.sd, "sd_se": self.sd * self.log_se, "sd_freedom": self.freedom}


def find_noise(core: Coreset) -> NoiseEstimate:
    """Return the sd of the noise of rows of numbers, or of their sums, and how well it is known."""
    root = np.sqrt(core.weights)
    assert core.offset is not None
    basis, y = _basis(root[:, None] * core.X), -root * core.offset
    for _ in range(2):  # the second time for rounding
        y = y - basis @ (basis.T @ y)
    weight, p = float(core.weights.sum()), basis.shape[1]
    if weight - p < 1.0:
        raise DataError(
            f"family='normal' seeks the sd of the noise, and rows of the weight {weight:g} do not tell it beside {p} "
            "coefficients: a row of weight w counts as w rows; give more rows, weights with the mean 1, or the sd, as "
            "in 'normal(2.5)'"
        )
    found = NoiseEstimate(float(np.sqrt(y @ y / (weight - p))), float(np.sqrt(0.5 / (weight - p))))
    if found.sd <= _ROUNDING * np.abs(core.offset).max():
        raise DataError(_NO_NOISE)
    if core.group is not None:
        scale = group_prior_for(None, core, check_family("normal", seek=True)).sigma / found.sd
        found = _with_effects(_Restricted.of(core, (basis / root[:, None], y / root), weight - p, scale))
    return replace(found, sd=float(f"{found.sd:.{_DIGITS}g}"))


def _basis(rows: FloatArray) -> FloatArray:
    """Return orthonormal columns that span those of `rows`."""
    size = np.abs(rows).max(axis=0, initial=0.0)
    rows = rows[:, size > 0.0] / size[size > 0.0]
    if not rows.shape[1]:
        return rows
    rows = rows / np.sqrt((rows**2).sum(axis=0))
    Q, values, _ = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(Q[:, values > _RANK * values[0]])


@dataclass(frozen=True, eq=False)
class _Restricted:
    """The restricted likelihood as a function of the factors of L, in columns whose scale is 1, with the prior of sds.

    A point has for each term the entries of the lower triangle of its factor, row by row, diagonals by logarithm.
    """

    rows: JointRows
    X: FloatArray  # orthogonal by the weights
    y: FloatArray
    freedom: float
    prior: float  # scale of the sds' over that of the noise
    pull: FloatArray  # of y on all effects, (E,)
    scales: list[FloatArray]  # of the columns of effects
    solver: Callable[[list[FloatArray]], Solver]  # of the precision H, given the inverse of L of each term

    @classmethod
    def of(cls, core: Coreset, columns: tuple[FloatArray, FloatArray], freedom: float, prior: float) -> "_Restricted":
        """Return that of rows, in other columns X, y."""
        rows = JointRows.of(core)
        assert core.group is not None
        order = np.argsort(core.group[:, rows.places[0]], kind="stable")
        X, y, w = columns[0][order], columns[1][order], rows.rows.weights
        curvature, p = rows.curvature(w, X), X.shape[1]

        def solver(inverses: list[FloatArray]) -> Solver:
            blocks = zip(inverses, rows.shapes, strict=True)
            return curvature.solver(np.zeros((p, p)), [np.broadcast_to(own, (G, q, q)) for own, (G, q) in blocks])

        scales = [np.sqrt(np.maximum(w @ z**2 / w.sum(), np.finfo(float).tiny)) for z in rows.z]
        return cls(rows, X, y, freedom, prior, rows.columns.T @ (w * y), scales, solver)

    @property
    def first(self) -> FloatArray:
        """Return the point from which the mode is sought: effects on columns about their means are independent."""
        w, found = self.rows.rows.weights, []
        for factor, z, size in zip(self.rows.factors, self.rows.z, self.scales, strict=True):
            T, about = np.eye(len(size)), z
            if "1" in factor.effects:
                i = factor.effects.index("1")
                mean = (w * z[:, i]) @ z / (w @ z[:, i] ** 2)
                mean[i] = 0.0
                about = z - np.outer(z[:, i], mean)
                T[i] -= mean
            sd = np.maximum(np.sqrt(w @ about**2 / w.sum()), _RANK * size)
            B = np.linalg.cholesky((size[:, None] * T * (_FIRST / sd) ** 2) @ (size[:, None] * T).T)
            B[np.diag_indices(len(B))] = np.log(np.diagonal(B))
            found.append(B[np.tril_indices(len(B))])
        return np.concatenate(found)

    @property
    def diagonal(self) -> np.ndarray:
        """Return which coordinates are logarithms."""
        return np.concatenate([np.equal(*np.tril_indices(len(own))) for own in self.scales])

    def factors(self, point: FloatArray) -> list[FloatArray]:
        """Return the factors of L, (q, q), of columns of scale 1."""
        found, at = [], 0
        for own in self.scales:
            q = len(own)
            B, places = np.zeros((q, q)), np.tril_indices(q)
            B[places] = point[at : at + len(places[0])]
            np.fill_diagonal(B, np.exp(np.diagonal(B)))
            found.append(B)
            at += len(places[0])
        return found

    def log_sds(self, point: FloatArray) -> dict[str, tuple[float, FloatArray]]:
        """Return logs of sds of effects over that of the noise, and their gradients, by name."""
        found, at = {}, 0
        for factor, B in zip(self.rows.factors, self.factors(point), strict=True):
            i, j = np.tril_indices(len(B))
            for k, effect in enumerate(factor.effects):
                slope, square = np.zeros(len(point)), float(B[k] @ B[k])
                slope[at : at + len(i)] = np.where(i == k, B[i, j] * np.where(j == k, B[k, k], 1.0), 0.0) / square
                name = f"sigma_{factor.name}" if len(B) == 1 else f"sigma_{factor.name}[{effect}]"
                found[name] = 0.5 * np.log(square), slope
            at += len(i)
        return found

    def at(self, point: FloatArray) -> tuple[float, float, FloatArray, FloatArray]:
        """Return r^2, the logarithms of determinants and the prior, and half of the gradients of both, at a point."""
        rows, p = self.rows, self.X.shape[1]
        factors = [own / size[:, None] for own, size in zip(self.factors(point), self.scales, strict=True)]
        turned = [np.linalg.inv(B) for B in factors]
        inverses = [own.T @ own for own in turned]
        solver = self.solver(inverses)
        ends = np.cumsum([G * q for G, q in rows.shapes])
        rest = np.concatenate([self.X.T @ (rows.rows.weights * self.y), self.pull[ends[0] :]])
        first, move = solver.solve(self.pull[: ends[0]].reshape(rows.shapes[0]), rest)
        u = np.concatenate([first.ravel(), move[p:]])
        gaps = self.y - self.X @ move[:p] - rows.columns @ u
        effects = [own.reshape(shape) for own, shape in zip(np.split(u, ends[:-1]), rows.shapes, strict=True)]
        square = float(rows.rows.weights @ gaps**2)
        logs = float(np.linalg.slogdet(solver.D)[1].sum()) + 2.0 * float(np.log(np.diagonal(solver.factor)).sum())
        of_square, of_logs = [], []
        parts = zip(factors, turned, inverses, effects, solver.variances(rows.shapes), self.scales, strict=True)
        for B, turn, P, own, variance, size in parts:
            G, q = own.shape
            square += float(((own @ turn.T) ** 2).sum())
            logs += 2.0 * G * float(np.log(np.diagonal(B)).sum())
            places, chain = np.tril_indices(q), np.ones((q, q))
            np.fill_diagonal(chain, np.diagonal(B) * size)
            of_square.append((-(P @ (own.T @ own) @ turn.T) / size[:, None] * chain)[places])
            of_logs.append(((G * turn.T - P @ variance.sum(axis=0) @ turn.T) / size[:, None] * chain)[places])
        of_prior = np.zeros(len(point))
        for log_sd, slope in self.log_sds(point).values():
            value, steep, _ = log_sigma_terms(log_sd, 3.0, self.prior)
            logs -= 2.0 * value
            of_prior += steep * slope
        return square, logs, np.concatenate(of_square), np.concatenate(of_logs) - of_prior

    def profile(self, point: FloatArray) -> tuple[float, FloatArray]:
        """Return minus the log likelihood at the best sd, and its gradient."""
        square, logs, of_square, of_logs = self.at(point)
        return 0.5 * (self.freedom * np.log(square) + logs), self.freedom / square * of_square + of_logs


def _with_effects(own: _Restricted) -> NoiseEstimate:
    """Return the sd of the noise of rows with group terms."""
    low, high = (np.where(own.diagonal, np.log(end), far) for end, far in ((_LEAST, -_MOST), (_MOST, _MOST)))
    first, unit = own.first, float(len(own.pull))  # so that a first step along the gradient is of the order of 1
    begin = own.profile(first)[0]

    def descent(point: FloatArray) -> Any:
        if (point[own.diagonal] > _BEYOND).any():  # a step that is too long: exponentials would overflow
            return _FAR_OFF, np.zeros(len(point))
        try:
            value, slope = own.profile(point)
        except DataError:  # H is singular there: the step is shortened
            return _FAR_OFF, np.zeros(len(point))
        return (value - begin) / unit, slope / unit

    asked: Any = {"gtol": 1e-4 / unit, "ftol": 1e-15, "maxiter": 500}
    ends = [(end, None) for end in low.tolist()]  # with both ends the first step would go to one of them
    point = optimize.minimize(descent, first, jac=True, method="L-BFGS-B", bounds=ends, options=asked).x
    if (point >= high - _STEP).any():
        raise DataError(_NO_NOISE)
    square, _, of_square, of_logs = own.at(point)
    precision = own.freedom / square
    inside = np.flatnonzero((point > low + _STEP) & (point < high - _STEP))

    def moved(step: FloatArray) -> FloatArray:
        _, _, one, other = own.at(point + step)
        return np.asarray(precision * one + other)[inside]

    # A is the curvature in the factors of L, given the sd
    steps = _STEP * np.eye(len(point))[inside]
    A = np.array([moved(step) - moved(-step) for step in steps]).reshape(len(steps), len(steps)) / (2.0 * _STEP)
    values, turn = np.linalg.eigh(0.5 * (A + A.T))
    inverse = (turn / np.maximum(values, _LEAST_CURVATURE)) @ turn.T
    slope = (precision * of_square + of_logs)[inside]
    if float(slope @ inverse @ slope) > _NEAR**2 and (point[own.diagonal] > np.log(_LARGE)).any():
        raise DataError(_NO_NOISE)
    cross = -2.0 * precision * of_square[inside]
    log_se = max(2.0 * own.freedom - float(cross @ inverse @ cross), 1.0) ** -0.5
    moves = {name: 1.0 - float(J[inside] @ inverse @ cross) for name, (_, J) in own.log_sds(point).items()}
    return NoiseEstimate(float(np.sqrt(square / own.freedom)), log_se, moves)
