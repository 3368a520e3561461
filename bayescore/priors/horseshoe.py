"""The regularised horseshoe, whose density has no closed form."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, NoReturn

import numpy as np

from bayescore.priors.normal import Normal
from bayescore.priors.prior import Prior
from bayescore.types import INTERCEPT, FloatArray

_SLAB_DF = 4.0  # of the slab, as Piironen and Vehtari have it


@dataclass(frozen=True)
class Horseshoe(Prior):
    r"""Regularised horseshoe prior: most coefficients near 0, few as large as a slab lets them be.

    .. math:: \beta_d \sim N\left(0, \frac{c^2 \tau^2 \lambda_d^2}{c^2 + \tau^2 \lambda_d^2}\right), \quad
              \tau \sim C^+(\texttt{tau}), \; \lambda_d \sim C^+(1), \;
              c^2 \sim \mathrm{Inv\text{-}Gamma}(\nu / 2, \nu \, \texttt{slab}^2 / 2)

    A Student t slab with nu = 4 degrees of freedom draws in large coefficients: without it those that the data do not
    determine would have no moments. An intercept gets N(0, 4), unless `shrink_intercept`. The density has no closed
    form: NUTS samples tau, lambda, c^2 and beta.

    Parameters
    ----------
    tau : float
        Scale of tau, one number; (p / (D - p)) 2 / sqrt(n) if p of D coefficients are thought to matter.
    slab : float
        Scale of large coefficients.
    shrink_intercept : bool
        Whether the intercept is shrunk as the others are.

    Raises
    ------
    TypeError, ValueError
        If `tau` or `slab` is not one positive number.

    References
    ----------
    Carvalho, Polson and Scott (2010), Biometrika 97. Piironen and Vehtari (2017), Sparsity information and
    regularization in the horseshoe and other shrinkage priors, Electronic Journal of Statistics 11.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.priors.Horseshoe(tau=0.05)
    Horseshoe(tau=0.05, slab=2.0, shrink_intercept=False)
    """

    tau: float = 1.0
    slab: float = 2.0
    _: KW_ONLY
    shrink_intercept: bool = False

    closed_form = False
    positive = ("tau", "slab")
    in_units = ("tau", "slab")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tau", "slab"):
            if np.ndim(getattr(self, name)):
                raise ValueError(f"prior: {name}={getattr(self, name)!r} of the horseshoe must be one number for all")

    def table(self, n_features: int) -> NoReturn:
        """Raise: the prior has no density in closed form."""
        raise ValueError("prior: the horseshoe has no density in closed form; use sampler='nuts' with it")

    def log_density(self, beta: Any) -> NoReturn:
        """Raise, as `table` does; `variable` is the prior's graph."""
        self.table(0)

    gradient = precision = log_density

    def distribution(self, n_features: int) -> NoReturn:
        """Raise, as `table` does."""
        self.table(n_features)

    def variable(self, near: Callable[[], tuple[FloatArray, FloatArray]] | None = None) -> Any:
        r"""Add the coefficients and their scales to the model: beta is affine in standardised coefficients.

        Let m and h be mode and sd of a coefficient by the rows alone, and s its prior sd. Its conditional posterior is
        about N(a m, a h^2), a = s^2 / (s^2 + h^2). With beta = a m + sqrt(a) h u scales hardly change the posterior of
        u: centred where rows say much, non-centred where the prior does
        (Papaspiliopoulos, Roberts and Skold 2007, Statistical Science 22). It is exact whatever m and h are:
        u ~ N(-sqrt(a) m / h, (s^2 + h^2) / h^2).
        """
        import pymc as pm
        import pytensor.tensor as pt

        tau = pm.HalfCauchy("tau", self.tau)
        local = pm.HalfCauchy("lambda", 1.0, dims="feature")
        slab = pm.InverseGamma("c2", 0.5 * _SLAB_DF, 0.5 * _SLAB_DF * self.slab**2)
        free = (tau * local) ** 2
        s = pt.sqrt(slab * free / (slab + free))
        if not self.shrink_intercept:
            s = pt.switch(np.asarray(pm.modelcontext(None).coords["feature"]) == INTERCEPT, Normal().sigma, s)
        assert near is not None
        m, h = near()
        root = s / pt.sqrt(s**2 + h**2)
        u = pm.Normal("beta_standardised", -root * m / h, pt.sqrt(s**2 + h**2) / h, dims="feature")
        return pm.Deterministic("beta", root**2 * m + root * h * u, dims="feature")

    def of_coefficient(self, d: int, name: str, n_features: int) -> Prior:
        """Return the prior itself, or that of an intercept which is not shrunk."""
        return Normal() if name == INTERCEPT and not self.shrink_intercept else self
