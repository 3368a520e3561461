"""The mean sensitivity bound to expect of rows from a mixture (Huggins, Campbell and Broderick 2016, Proposition 3.8).

The bound does not grow with N. When to use it: to see before a pass whether sensitivity sampling can pay;
`sensitivity.sensitivity_bounds` are those of given rows.

How large sensitivities can be: rows that are close to each other although each is indispensable.

When to use it: to see why sensitivity sampling needs a ball of coefficients, and how good its bounds are at best. On
all of R^D such data have no coreset of rows, and their directions are common: random points of the sphere, random signs
(Huggins, Campbell and Broderick 2016, Coresets for scalable Bayesian logistic regression, NeurIPS, section 3.2 and
appendix C).
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln

from bayescore.types import FloatArray
from bayescore.validation import check_integer, check_matrix, check_positive

RATES = np.linspace(0.01, 0.49, 49)  # of r in the proposition: any between 0 and 1/2 is allowed


def expected_sensitivity(
    n_rows: float, radius: float, *, shares: ArrayLike, means: ArrayLike, traces: ArrayLike, mean_labels: ArrayLike
) -> float:
    r"""Return what Proposition 3.8 gives for the expected mean sensitivity bound of rows from a mixture.

    Rows x come from components with shares p_i, means mu_i and covariances S_i, labels y with means ybar_i; each
    component's signed rows are a cluster. With eta_i = max(p_i - N^(-r), 0), at the best r between 0 and 1/2,

    .. math:: \Bigl[ \frac1N + \sum_i \eta_i e^{-R \sqrt{A_i / (N \eta_i) + B_i}} \Bigr]^{-1}
              + \sum_{\eta_i > 0} N e^{-2 N^{1 - 2r}} \to \Bigl[ \sum_i p_i e^{-R \sqrt{B_i}} \Bigr]^{-1},

    .. math:: A_i = \operatorname{tr} S_i + (1 - \bar y_i^2) |\mu_i|^2, \qquad
              B_i = \sum_j p_j \bigl( \operatorname{tr} S_j + |\bar y_i \mu_i|^2
              - 2 \bar y_i \bar y_j \mu_i \cdot \mu_j + |\mu_j|^2 \bigr).

    Parameters
    ----------
    n_rows : float
        Rows N; infinity for the limit.
    radius : float
        Radius R of the ball of coefficients.
    shares : array, shape (k,)
        Shares p_i of the components; they sum to 1.
    means : array, shape (k, D)
        Means mu_i.
    traces : array, shape (k,)
        Traces of the covariances, sums of the variances of the columns.
    mean_labels : array, shape (k,)
        ybar_i, between -1 and 1.

    Returns
    -------
    float
        At most N. With one component and N infinite this is Corollary 3.9 with C = 1.

    Raises
    ------
    DataError, ValueError, TypeError
        If an argument is out of its range, or shapes do not fit.

    Notes
    -----
    B_i has ybar_i^2, as the source's proof has it, not the ybar_j^2 printed in its statement. The value is no bound
    where R is large against the spread of the rows: the proof takes E[1/(1 + c e^(-R d))] <= 1/(1 + c e^(-R E d)) for
    distances d, but that function is convex in d while c e^(-R d) > 1, and the inequality points the other way. The
    mean bound itself tends to E[(sum_i p_i e^(-R abs(ybar_i mu_i - z)))^-1]. For one component N(0, 1) in one
    dimension, with labels by the toss of a coin, that is 2 exp(R^2 / 2) Phi(R), Phi the standard normal
    distribution function, and this value tends to exp(R): 1.57 and 1.65 at R = 0.5, 180 and 20 at R = 3. The proof
    also takes labels to be independent of the rows, given the component.

    References
    ----------
    Huggins, Campbell and Broderick (2016), Coresets for scalable Bayesian logistic regression, NeurIPS, Proposition 3.8
    and Corollary 3.9.

    Examples
    --------
    >>> import math
    >>> from bayescore.papers.huggins import expected_sensitivity
    >>> one = {"shares": [1.0], "means": [[0.0]], "traces": [1.0], "mean_labels": [0.0]}
    >>> round(expected_sensitivity(math.inf, 0.5, **one), 2), round(expected_sensitivity(10_000, 0.5, **one), 2)
    (1.65, 1.7)
    """
    N = math.inf if isinstance(n_rows, float) and n_rows == math.inf else check_integer(n_rows, "n_rows", low=1)
    R = check_positive(radius, "radius")
    mu = np.asarray(check_matrix(means, "means"), dtype=np.float64)
    parts = {"shares": shares, "traces": traces, "mean_labels": mean_labels}
    p, trace, label = (_numbers(part, name, len(mu)) for name, part in parts.items())
    if (p < 0.0).any() or abs(p.sum() - 1.0) > 1e-9:
        raise ValueError(f"shares={p.tolist()} must be positive and sum to 1")
    if (trace < 0.0).any():
        raise ValueError(f"traces={trace.tolist()} must not be negative")
    if (np.abs(label) > 1.0).any():
        raise ValueError(f"mean_labels={label.tolist()} must lie between -1 and 1")
    signed, squares = label[:, None] * mu, (mu * mu).sum(axis=1)
    A = trace + (1.0 - label**2) * squares
    B = p @ (trace + squares) + (signed * signed).sum(axis=1) - 2.0 * signed @ (p @ signed)
    if math.isinf(N):
        return 1.0 / float(p @ np.exp(-R * np.sqrt(B)))
    eta = np.maximum(p - N ** -RATES[:, None], 0.0)  # a row for each r
    bound = A / (N * np.where(eta > 0.0, eta, 1.0)) + B
    first = 1.0 / (1.0 / N + (eta * np.exp(-R * np.sqrt(bound))).sum(axis=1))
    second = (eta > 0.0).sum(axis=1) * N * np.exp(-2.0 * N ** (1.0 - 2.0 * RATES))
    return min(float(N), float((first + second).min()))


def _numbers(values: ArrayLike, name: str, length: int) -> FloatArray:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.shape != (length,) or not np.isfinite(numbers).all():
        raise ValueError(f"{name} has shape {numbers.shape}; it must be ({length},), finite, one for each row of means")
    return numbers


def indispensable_rows(directions: ArrayLike, closeness: float) -> tuple[FloatArray, float]:
    r"""Return unit rows that are close to each other although each is indispensable (Theorem 3.4).

    .. math:: z_n = (\delta v_n, \sqrt{1 - \delta^2}), \qquad \delta^2 = e' / 2

    Parameters
    ----------
    directions : array, shape (N, D - 1)
        Distinct directions v_n; they are scaled to length 1.
    closeness : float
        e', between 0 and 1: z_n . z_m >= 1 - e' for all pairs.

    Returns
    -------
    Z : array, shape (N, D)
        Signed rows, of length 1.
    separation : float
        e = 1 - max v_n . v_m over pairs.

    Raises
    ------
    DataError
        If `directions` is not a matrix of finite numbers.
    ValueError
        If `closeness` is out of its range, there are fewer than two directions, or two are the same or 0.

    References
    ----------
    Huggins, Campbell and Broderick (2016), Theorem 3.4 and Lemma C.1.

    Examples
    --------
    >>> import numpy as np
    >>> from bayescore.papers.huggins import indispensable_rows
    >>> Z, separation = indispensable_rows(np.eye(3), closeness=0.5)
    >>> Z.shape, round(float((Z @ Z.T).min()), 6), separation
    ((3, 4), 0.75, 1.0)
    """
    V = np.asarray(check_matrix(directions, "directions"), dtype=np.float64)
    delta = math.sqrt(check_positive(closeness, "closeness", below=1.0) / 2.0)
    lengths = np.linalg.norm(V, axis=1, keepdims=True)
    if len(V) < 2 or not (np.isfinite(V).all() and lengths.all()):
        raise ValueError(f"directions has {len(V)} rows; give two or more, finite and none of them 0")
    V = V / lengths
    products = V @ V.T
    np.fill_diagonal(products, -1.0)
    separation = 1.0 - float(products.max())
    if separation < np.finfo(np.float64).eps * V.shape[1]:
        n, m = divmod(int(products.argmax()), len(V))
        raise ValueError(f"directions {n} and {m} are the same; give distinct ones")
    return np.column_stack([delta * V, np.full(len(V), math.sqrt(1.0 - delta**2))]), separation


def sensitivity_range(n_rows: int, radius: float, *, separation: float, closeness: float) -> tuple[float, float]:
    r"""Return bounds from below and above of the sensitivity of each of `indispensable_rows`.

    .. math:: \frac{N}{1 + (N-1) e^{-R e \sqrt{e'} / 4}} \le \sigma_n \le \frac{N}{1 + (N-1) e^{-R \sqrt{2 e'}}}

    Parameters
    ----------
    n_rows : int
        Rows N.
    radius : float
        Radius R of the ball of coefficients.
    separation, closeness : float
        e and e', as `indispensable_rows` returns and takes them.

    Returns
    -------
    lower, upper : float
        Both tend to N, the largest sensitivity there is, as R grows.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of its range.

    References
    ----------
    Huggins, Campbell and Broderick (2016), Theorem 3.4 (lower) and Corollary 3.7.

    Examples
    --------
    >>> from bayescore.papers.huggins import sensitivity_range
    >>> lower, upper = sensitivity_range(1000, 30.0, separation=1.0, closeness=0.5)
    >>> round(lower), round(upper)
    (167, 1000)
    """
    n = check_integer(n_rows, "n_rows", low=1)
    R = check_positive(radius, "radius")
    e = check_positive(separation, "separation")
    close = check_positive(closeness, "closeness", below=1.0)
    exponents = R * e * math.sqrt(close) / 4.0, R * math.sqrt(2.0 * close)
    lower, upper = (n / (1.0 + (n - 1) * math.exp(-exponent)) for exponent in exponents)
    return lower, upper


def sphere_separation(n_rows: int, n_features: int, delta: float) -> float:
    r"""Return e such that N random points of the unit sphere of R^D keep 1 - max v_n . v_m >= e.

    .. math:: e = \Bigl( \delta \Big/ \tbinom{N}{2} \frac{2^{(D+1)/2}}{(D-1) B(\frac{D-1}{2}, \frac12)}
              \Bigr)^{2/(D-1)} = C_D N^{-4/(D-1)}

    Parameters
    ----------
    n_rows, n_features : int
        Points N, at least 2, and dimension D, at least 2.
    delta : float
        Probability that some pair is closer.

    Returns
    -------
    float
        e, at most 1/2: the proof goes no further.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of its range.

    Notes
    -----
    The source's proof counts "D choose 2" pairs; N choose 2 is meant.

    References
    ----------
    Huggins, Campbell and Broderick (2016), Proposition 3.5.

    Examples
    --------
    >>> from bayescore.papers.huggins import sphere_separation
    >>> round(sphere_separation(1000, 10, delta=0.05), 3)
    0.019
    """
    n = check_integer(n_rows, "n_rows", low=2)
    D = check_integer(n_features, "n_features", low=2)
    log_pairs = math.log(n) + math.log(n - 1) - math.log(2.0)
    log_density = 0.5 * (D + 1) * math.log(2.0) - math.log(D - 1) - float(betaln(0.5 * (D - 1), 0.5))
    room = math.log(check_positive(delta, "delta", below=1.0)) - log_pairs - log_density
    return min(0.5, math.exp(2.0 * room / (D - 1)))


def near_orthogonal_rows(n_features: int, separation: float) -> int:
    r"""Return how many random sign vectors are pairwise near orthogonal with probability 1/2 or more.

    .. math:: N = \lfloor \exp((1 - e)^2 D / 4) / \sqrt2 \rfloor, \qquad 1 - \max v_n \cdot v_m \ge e,
              \quad v_{ni} = \pm 1 / \sqrt D

    Parameters
    ----------
    n_features : int
        Dimension D.
    separation : float
        e, between 0 and 1.

    Returns
    -------
    int
        Vectors N.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of its range.

    References
    ----------
    Huggins, Campbell and Broderick (2016), Proposition 3.6.

    Examples
    --------
    >>> from bayescore.papers.huggins import near_orthogonal_rows
    >>> near_orthogonal_rows(100, separation=0.5)
    366
    """
    D = check_integer(n_features, "n_features", low=1)
    e = check_positive(separation, "separation", below=1.0)
    return math.floor(math.exp((1.0 - e) ** 2 * D / 4.0) / math.sqrt(2.0))
