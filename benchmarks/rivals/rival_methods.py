r"""GIGA and quasi-Newton coresets for weighted logistic rows: our own short implementations, written from the papers.

No package that holds them can be installed beside this one. Both see a row as a vector v_n in R^S, made at S = 500
draws theta_s of a normal posterior, and look for weights with sum_n w_n v_n near the sum over all rows. Rows that are
equal have equal vectors, so both run on merged rows whose weights count the copies, and find what they would find on
the copies.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy import special
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits

import bayescore as bc
from bayescore.compiled import available_cores
from bayescore.models.laplace import Mode
from bayescore.types import FloatArray, WeightedData

DRAWS = 500  # S, the default of the authors' code
NNLS_STEPS = 100  # a row; on w8a SciPy's 3 are too few
CHUNK = 1024  # rows; 2 MB of vectors


def posterior_draws(mode: Mode, rng: np.random.Generator) -> FloatArray:
    """Return draws of the Laplace approximation, shape (S, D)."""
    return mode.beta + rng.standard_normal((DRAWS, len(mode.beta))) @ mode.factor.T


def log_p(Z: FloatArray, theta: FloatArray) -> FloatArray:
    """Return log p(z_n . theta_s), shape (n, S), in single precision, four times as fast here."""
    eta = Z.astype(np.float32) @ theta.T.astype(np.float32)
    tail = np.abs(eta)
    np.exp(np.negative(tail, out=tail), out=tail)
    tail += np.float32(1.0)
    return np.minimum(eta, np.float32(0.0), out=eta) - np.log(tail, out=tail)


def in_chunks(data: WeightedData, function: Callable[[slice], object]) -> list:
    """Return ``function(rows)`` for slices of `CHUNK` rows, in threads: NumPy lets go of the GIL."""
    slices = [slice(start, start + CHUNK) for start in range(0, len(data), CHUNK)]
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(available_cores()) as pool:
        return list(pool.map(function, slices))


def giga(
    data: WeightedData, prior: bc.priors.Normal, sizes: tuple[int, ...], seed: int
) -> dict[int, tuple[WeightedData, WeightedData]]:
    r"""Return coresets by greedy iterative geodesic ascent for each number of iterations in `sizes`.

    The second of each pair has its weights fitted anew, by non-negative least squares on the rows chosen, which the
    authors' code offers and the paper does without.

    On the unit sphere, with u the current coreset's direction and b the full data's, take the row whose geodesic from u
    points most nearly at b, move along it to the point nearest b, and at the end scale to the length that fits best:

    .. math:: n = \arg\max \frac{\langle b - \langle b, u \rangle u, v_n \rangle}{\sqrt{1 - \langle u, v_n \rangle^2}}

    The vectors are the paper's random projection of the weighted Fisher distance: v_n holds, for each draw of the
    full data's Laplace approximation, one partial derivative of log p(z_n . theta_s), its coordinate drawn at random.

    References
    ----------
    Campbell and Broderick (2018), Bayesian coreset construction via greedy iterative geodesic ascent, Algorithm 1.
    """
    rng = np.random.default_rng(seed)
    theta = posterior_draws(bc.find_map(data, "logistic", prior), rng).astype(np.float32)
    coordinate = rng.integers(theta.shape[1], size=DRAWS)
    Z = data.Z.astype(np.float32)
    unit = np.empty((len(data), DRAWS), dtype=np.float32)
    norms = np.empty(len(data))

    def project(rows: slice) -> FloatArray:
        v = special.expit(-(Z[rows] @ theta.T)) * Z[rows][:, coordinate]
        v = v.astype(float)  # the squares of rows that are nearly certain underflow
        norms[rows] = np.linalg.norm(v, axis=1)
        unit[rows] = v / np.maximum(norms[rows], 1e-100)[:, None]
        return data.weights[rows] @ v

    total = np.sum(in_chunks(data, project), axis=0)
    unit[norms < 1e-3 * norms.mean()] = 0.0  # never taken: rows nearly certain would get weights beyond all bounds
    length = np.linalg.norm(total)
    b, u = total / length, np.zeros(DRAWS)
    to_b, to_u = unit @ b.astype(np.float32), np.zeros(len(data))
    shares = np.zeros(len(data))  # of the unit vectors in u
    found = {}

    def ended() -> tuple[WeightedData, WeightedData]:
        chosen = np.flatnonzero(shares > 0.0)
        rows = data.take(chosen)
        weights = length * (b @ u) * shares[chosen] / norms[chosen]
        fitted = nnls(unit[chosen].T.astype(float), total, maxiter=NNLS_STEPS * len(chosen))[0] / norms[chosen]
        return rows.with_weights(weights), _kept(rows, fitted)

    for step in range(1, max(sizes) + 1):
        off = 1.0 - to_u**2
        n = int(np.argmax(np.where(off > 1e-6, (to_b - (b @ u) * to_u) / np.sqrt(np.maximum(off, 1e-6)), -np.inf)))
        v = unit[n].astype(float)
        v /= np.linalg.norm(v)
        towards, kept = b @ v - (b @ u) * (u @ v), b @ u - (b @ v) * (u @ v)
        if towards <= 0.0 or kept < 0.0:  # no row leads closer
            break
        u = (kept * u + towards * v) / (kept + towards)
        shares *= kept / (kept + towards)
        shares[n] += towards / (kept + towards)
        size = np.linalg.norm(u)
        to_u = (kept * to_u + towards * (unit @ unit[n])) / ((kept + towards) * size)
        u, shares = u / size, shares / size
        if step in sizes:
            found[step] = ended()
    return {size: found[size] if size in found else ended() for size in sizes}


def quasi_newton(data: WeightedData, prior: bc.priors.Normal, size: int, seed: int) -> WeightedData:
    r"""Return a uniform draw of `size` rows with the weights of 20 quasi-Newton steps on the KL divergence.

    v_n holds log p(z_n . theta_s) less its mean over the draws, over sqrt(S). With V the drawn rows' vectors, and v the
    sum of all rows',

    .. math:: w \leftarrow \max(0,\; w + \gamma (V V' + \tau I)^{-1} V (v - V' w)), \quad \tau = 0.01.

    The first step's length is searched for, gamma = 1 after that. Fresh draws, from the coreset's Laplace approximation
    (by MCMC in the paper), in each step; every step is a pass over all rows.

    References
    ----------
    Naik, Rousseau and Campbell (2022), Fast Bayesian coresets via subsampling and quasi-Newton refinement, Algorithm 1;
    settings and search as in the authors' code, without its early stop, which noise sets off: better for the method.
    """
    rng = np.random.default_rng(seed)
    Z, total = data.Z, data.weights.sum()
    which, counts = np.unique(rng.choice(len(data), size, p=data.weights / total), return_counts=True)
    rows, start = data.take(which), total * counts / size

    def vectors_at(w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return V and the gradient of minus the divergence at the weights w."""
        theta = posterior_draws(bc.find_map(rows.with_weights(w), "logistic", prior), rng)
        V = log_p(rows.Z, theta).astype(float)
        V = (V - V.mean(axis=1, keepdims=True)) / np.sqrt(DRAWS)
        parts = in_chunks(data, lambda part: data.weights[part] @ log_p(Z[part], theta).astype(float))
        everything = np.sum(parts, axis=0)
        return V, V @ ((everything - everything.mean()) / np.sqrt(DRAWS) - w @ V)

    def direction(V: FloatArray, gradient: FloatArray) -> FloatArray:
        return np.linalg.solve(V @ V.T + 0.01 * np.eye(len(V)), gradient)

    V, gradient = vectors_at(start)
    move = direction(V, gradient)
    slope, gamma = gradient @ move, 1.0
    while np.all(start + gamma * move <= 0.0):
        gamma /= 1.5
    for _ in range(10):
        w = np.maximum(start + gamma * move, 0.0)
        V, gradient = vectors_at(w)
        if 0.0 < gradient @ move < 0.9 * slope:
            break
        gamma /= 1.5
    else:
        return rows.with_weights(start)
    for _ in range(20):
        w = np.maximum(w + direction(V, gradient), 0.0)
        V, gradient = vectors_at(w)
    return _kept(rows, w)


def _kept(rows: WeightedData, weights: FloatArray) -> WeightedData:
    return rows.take(weights > 0.0).with_weights(weights[weights > 0.0])
