r"""Data sets: published ones, and draws of models whose coefficients are known.

Made visits to a shop: who clicked, with ages, incomes, devices and counties.

.. math:: P(\text{clicked}) = \mathrm{logit}^{-1}(-3.9 + 0.03 (\text{age} - 40) - 0.35 (\log \text{income} - 3.4)
          + 0.12\, \text{visits} + d_\text{device} + u_\text{county}), \qquad u \sim N(0, 0.4^2)

Use it where rows should look like people's: continuous and skewed columns, a factor, groups of unlike sizes, 3% of
events. The truth is known, so that what a fit says can be checked.

Synthetic data with known coefficients: Binary5, Binary10, Mixture and probit rows.

    binary:   x_d ~ Bern(p_d),              P(y = 1 | x) = 1 / (1 + exp(-x . theta))
    mixture:  P(y = 1) = 1/2,               x | y ~ N(mu_y, I)
    probit:   x_1 = 1, x_d ~ N(0, 1),       P(y = 1 | x) = Phi(x . beta)

Source: Huggins, Campbell and Broderick (2016), section 4. Use them to check a method where the truth is known.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from bayescore.data.published import load_chemreact, load_covtype, load_webspam
from bayescore.types import INTERCEPT, FloatArray, LabelArray, read_only
from bayescore.validation import RandomState, check_generator, check_integer, one_seed

if TYPE_CHECKING:
    import pandas as pd


__all__ = ["binary5", "binary10", "clicks", "load_chemreact", "load_covtype", "load_webspam", "mixture", "probit"]


DEVICES = {"desktop": 0.0, "phone": -0.45, "tablet": -0.25}


_DEVICE_SHARES = (0.35, 0.55, 0.1)


# fmt: off
_COUNTIES = (
    "Avon", "Beds", "Berks", "Bucks", "Cambs", "Cheshire", "Cornwall", "Cumbria", "Derby", "Devon", "Dorset",
    "Durham", "Essex", "Glos", "Hants", "Hereford", "Herts", "Hunts", "Kent", "Lancs", "Leics", "Lincs", "London",
    "Middx", "Norfolk", "Northants", "Notts", "Oxon", "Rutland", "Salop", "Somerset", "Staffs", "Suffolk",
    "Surrey", "Sussex", "Warks", "Wilts", "Worcs", "Yorks",
)


# fmt: on
TRUTH = {
    "age": 0.03,
    "log(income)": -0.35,
    "visits": 0.12,
    **{f"device[{name}]": DEVICES[name] for name in ("phone", "tablet")},
    "sigma_county": 0.4,
}


def clicks(
    n_rows: int = 1_000_000, *, random_state: RandomState = None, random_seed: RandomState = None
) -> "pd.DataFrame":
    """Return visits to a shop, made by a model whose coefficients are known.

    Parameters
    ----------
    n_rows : int
        Number of visits.
    random_state, random_seed : int, Generator, SeedSequence or None
        Seed, by either name; it draws the counties' effects too.

    Returns
    -------
    DataFrame
        Columns age (years), income (thousands a year), visits (before this one), device, county, clicked (0 or 1).

    Raises
    ------
    ValueError
        If `n_rows` is not positive.

    Examples
    --------
    >>> import bayescore as bc
    >>> rows = bc.datasets.clicks(1000, random_state=0)
    >>> list(rows.columns)
    ['age', 'income', 'visits', 'device', 'county', 'clicked']
    >>> bool(rows["age"].between(18, 80).all())
    True
    """
    import pandas as pd

    check_integer(n_rows, "n_rows", low=1)
    rng = check_generator(one_seed(random_state, random_seed))
    effect = rng.normal(0.0, TRUTH["sigma_county"], len(_COUNTIES))
    county = rng.choice(len(_COUNTIES), n_rows, p=rng.dirichlet(np.full(len(_COUNTIES), 2.0)))
    age = (18.0 + 62.0 * rng.beta(1.6, 2.6, n_rows)).round(1)
    income = np.exp(rng.normal(3.4, 0.6, n_rows)).round(2)
    visits = rng.negative_binomial(1, 0.25, n_rows)
    device = rng.choice(len(DEVICES), n_rows, p=_DEVICE_SHARES)
    eta = -3.9 + TRUTH["age"] * (age - 40.0) + TRUTH["log(income)"] * (np.log(income) - 3.4) + TRUTH["visits"] * visits
    eta += np.array(list(DEVICES.values()))[device] + effect[county]
    return pd.DataFrame(
        {
            "age": age,
            "income": income,
            "visits": visits,
            "device": pd.Categorical.from_codes(device, pd.Index(list(DEVICES))),
            "county": pd.Categorical.from_codes(county, pd.Index(_COUNTIES)),
            "clicked": (rng.random(n_rows) < expit(eta)).astype(np.int64),
        }
    )


Labelled = tuple[FloatArray, LabelArray]


CHUNK = 65_536  # rows; part of what a seed means, therefore not a parameter


BINARY10_P = read_only(np.array([1.0, 0.2, 0.3, 0.5, 0.01, 0.1, 0.2, 0.007, 0.005, 0.001]))


BINARY10_THETA = read_only(np.array([-3.0, 1.2, -0.5, 0.8, 3.0, -1.0, -0.7, 4.0, 3.5, 4.5]))


BINARY5_P = BINARY10_P[:5]


BINARY5_THETA = BINARY10_THETA[:5]


MIXTURE_MEANS = read_only(np.repeat([[0.0, 1.0], [1.0, 0.0]], 5, axis=1))  # row 0: y = -1, row 1: y = +1


# Both means have the same length, so that log P(y=1|x) / P(y=-1|x) = x . (mu_1 - mu_-1): no intercept.
MIXTURE_THETA = read_only(MIXTURE_MEANS[1] - MIXTURE_MEANS[0])


@dataclass(frozen=True, eq=False)
class Problem:
    """A distribution of labelled rows: call it for arrays, or ask it for blocks.

    Chunk i of 65,536 rows has a random stream of its own, child i of the seed, so that the stream of
    blocks and the arrays hold the same rows, whatever has been drawn before.

    Parameters
    ----------
    name : str
        What the problem is called.
    theta : array, shape (D,)
        True coefficients.
    feature_names : tuple of str
        Names of the D columns.
    draw : callable
        Takes a Generator and m, returns X, shape (m, D), and y in {-1, +1}, shape (m,).

    Examples
    --------
    >>> import bayescore as bc
    >>> X, y = bc.datasets.binary5(1000, random_state=0)
    >>> X.shape, bc.datasets.binary5.theta
    ((1000, 5), array([-3. ,  1.2, -0.5,  0.8,  3. ]))
    """

    name: str
    theta: FloatArray
    feature_names: tuple[str, ...]
    draw: Callable[[np.random.Generator, int], Labelled]

    @property
    def n_features(self) -> int:
        """Number of columns of the design matrix."""
        return len(self.theta)

    def __call__(self, n: int, random_state: RandomState = None, *, random_seed: RandomState = None) -> Labelled:
        """Draw n rows; the memory needed is the result and one chunk.

        Parameters
        ----------
        n : int
            Number of rows.
        random_state, random_seed : None, int, SeedSequence or Generator
            Seed, by either name.

        Returns
        -------
        X : float64 array, shape (n, D)
        y : int8 array, shape (n,)
            Labels, -1 or +1.

        Raises
        ------
        ValueError
            If n < 1.
        """
        parts = self.blocks(n, one_seed(random_state, random_seed))
        X, y = np.empty((n, self.n_features)), np.empty(n, dtype=np.int8)
        start = 0
        for X_block, y_block in parts:
            stop = start + len(y_block)
            X[start:stop], y[start:stop] = X_block, y_block
            start = stop
        return X, y

    def blocks(
        self, n: int, random_state: RandomState = None, *, random_seed: RandomState = None
    ) -> Iterator[Labelled]:
        """Yield the rows of `self(n, random_state)` in order, as pairs of X, shape (m, D), and y, shape (m,).

        m is 65,536 but for the last block. `random_seed` is another name of `random_state`.
        """
        n = check_integer(n, "n", low=1)
        # Fresh entropy, not spawn(): spawning would change a SeedSequence that the caller may use again.
        entropy = check_generator(one_seed(random_state, random_seed)).integers(2**32, size=4).tolist()

        def stream(i: int) -> np.random.Generator:
            return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(i,)))

        return (self.draw(stream(i), min(CHUNK, n - i * CHUNK)) for i in range(-(-n // CHUNK)))


def _signs(positive: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> LabelArray:
    return np.where(positive, np.int8(1), np.int8(-1))


def _binary(name: str, p: FloatArray, theta: FloatArray) -> Problem:
    def draw(rng: np.random.Generator, m: int) -> Labelled:
        X = (rng.random((m, len(p))) < p).astype(np.float64)
        return X, _signs(rng.random(m) < expit(X @ theta))

    return Problem(name, theta, (INTERCEPT, *(f"x{d}" for d in range(2, len(p) + 1))), draw)


def _draw_mixture(rng: np.random.Generator, m: int) -> Labelled:
    component = rng.integers(2, size=m)
    X = rng.standard_normal((m, MIXTURE_MEANS.shape[1]))
    X += MIXTURE_MEANS[component]
    return X, _signs(component == 1)


binary5 = _binary("Binary5", BINARY5_P, BINARY5_THETA)


binary10 = _binary("Binary10", BINARY10_P, BINARY10_THETA)


mixture = Problem("Mixture", MIXTURE_THETA, tuple(f"x{d}" for d in range(1, 11)), _draw_mixture)


def probit_problem(beta: ArrayLike) -> Problem:
    """Return the model of `probit` as a `Problem`."""
    theta = np.array(beta, dtype=np.float64)
    if theta.ndim != 1 or theta.size == 0 or not np.isfinite(theta).all():
        raise ValueError(f"beta={beta!r} must be a list of finite numbers, the intercept first")

    def draw(rng: np.random.Generator, m: int) -> Labelled:
        X = rng.standard_normal((m, len(theta)))
        X[:, 0] = 1.0
        return X, _signs(rng.standard_normal(m) < X @ theta)  # P(noise < eta) = Phi(eta)

    names = (INTERCEPT, *(f"x{d}" for d in range(2, len(theta) + 1)))
    return Problem("Probit", read_only(theta), names, draw)


def probit(n: int, beta: ArrayLike, random_state: RandomState = None, *, random_seed: RandomState = None) -> Labelled:
    """Draw n rows of the probit model with coefficients beta.

    x_1 = 1, x_d ~ N(0, 1) for d > 1, and P(y = 1 | x) = Phi(x . beta).

    Parameters
    ----------
    n : int
        Number of rows.
    beta : array-like, shape (D,)
        Coefficients, the intercept first.
    random_state, random_seed : None, int, SeedSequence or Generator
        Seed, by either name.

    Returns
    -------
    X : float64 array, shape (n, D)
    y : int8 array, shape (n,)

    Raises
    ------
    ValueError
        If n < 1 or beta is not a list of finite numbers.

    Examples
    --------
    >>> import bayescore as bc
    >>> X, y = bc.datasets.probit(1000, [0.5, -1.0], random_state=0)
    >>> X.shape, y.dtype
    ((1000, 2), dtype('int8'))
    """
    return probit_problem(beta)(n, random_state, random_seed=random_seed)
