"""The mean sensitivity bound to expect of rows from a mixture (Huggins, Campbell and Broderick 2016, Proposition 3.8).

The bound does not grow with N. When to use it: to see before a pass whether sensitivity sampling can pay;
`scores.sensitivity` has the bounds of given rows.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

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
    >>> from bayescore.papers.expected_sensitivity import expected_sensitivity
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
    own = A / (N * np.where(eta > 0.0, eta, 1.0)) + B
    first = 1.0 / (1.0 / N + (eta * np.exp(-R * np.sqrt(own))).sum(axis=1))
    second = (eta > 0.0).sum(axis=1) * N * np.exp(-2.0 * N ** (1.0 - 2.0 * RATES))
    return min(float(N), float((first + second).min()))


def _numbers(values: ArrayLike, name: str, length: int) -> FloatArray:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.shape != (length,) or not np.isfinite(numbers).all():
        raise ValueError(f"{name} has shape {numbers.shape}; it must be ({length},), finite, one for each row of means")
    return numbers
