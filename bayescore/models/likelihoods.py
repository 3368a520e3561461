r"""The two likelihoods of bayescore as functions of eta = y (x . beta).

========  ======================  ==================================  =====================
link      log p(eta)              score s                             curvature c = -log p''
========  ======================  ==================================  =====================
logistic  -log(1 + exp(-eta))     1 / (1 + exp(eta))                  s (1 - s)
probit    log Phi(eta)            phi(eta) / Phi(eta)                 s (s + eta)
========  ======================  ==================================  =====================

The third derivative of log p is c (1 - 2 s) for the logistic and c (2 s + eta) - s for the probit link.

Both are log-concave. Nothing here forms Phi, 1 - Phi or exp(eta) on its own, so all values are finite for
abs(eta) up to 1e4 and beyond; the probit tail uses the scaled complementary error function,
phi / Phi = sqrt(2 / pi) / erfcx(-eta / sqrt(2)).
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from bayescore.types import FloatArray, Likelihood
from bayescore.validation import check_choice

LOGISTIC = 0
PROBIT = 1

# below this the difference s + eta cancels; the series of c in 1/eta^2 has relative error < 1e-12 there
PROBIT_TAIL = -200.0


@dataclass(frozen=True)
class Logistic:
    """Logistic link: P(y | x) = 1 / (1 + exp(-y x . beta))."""

    name: str = "logistic"
    code: int = LOGISTIC

    def log_p(self, eta: FloatArray) -> FloatArray:
        """Return -log(1 + exp(-eta))."""
        return -np.logaddexp(0.0, -eta)

    def score(self, eta: FloatArray) -> FloatArray:
        """Return sigmoid(-eta)."""
        return np.asarray(special.expit(-eta))

    def curvature(self, eta: FloatArray) -> FloatArray:
        """Return sigmoid(eta) sigmoid(-eta)."""
        return np.asarray(special.expit(-eta) * special.expit(eta))

    def third(self, eta: FloatArray) -> FloatArray:
        """Return the third derivative c (1 - 2 s) of log p."""
        return np.asarray(self.curvature(eta) * np.tanh(0.5 * eta))

    def probability(self, eta: FloatArray) -> FloatArray:
        """Return P(y = +1) for the linear predictor eta = x . beta."""
        return np.asarray(special.expit(eta))


@dataclass(frozen=True)
class Probit:
    """Probit link: P(y | x) = Phi(y x . beta), Phi the normal distribution function."""

    name: str = "probit"
    code: int = PROBIT

    def log_p(self, eta: FloatArray) -> FloatArray:
        """Return log Phi(eta)."""
        return np.asarray(special.log_ndtr(eta))

    def score(self, eta: FloatArray) -> FloatArray:
        """Return the inverse Mills ratio phi(eta) / Phi(eta)."""
        eta = np.asarray(eta, dtype=np.float64)
        left = np.sqrt(2.0 / np.pi) / special.erfcx(-np.minimum(eta, 0.0) / np.sqrt(2.0))
        right = np.exp(-0.5 * np.maximum(eta, 0.0) ** 2) / np.sqrt(2.0 * np.pi) / special.ndtr(np.maximum(eta, 0.0))
        return np.asarray(np.where(eta < 0.0, left, right))

    def curvature(self, eta: FloatArray) -> FloatArray:
        """Return s (s + eta), between 0 and 1."""
        eta = np.asarray(eta, dtype=np.float64)
        score = self.score(eta)
        inverse_square = 1.0 / np.minimum(eta, PROBIT_TAIL) ** 2
        tail = 1.0 - inverse_square * (1.0 - 6.0 * inverse_square * (1.0 - 50.0 / 6.0 * inverse_square))
        return np.asarray(np.where(eta < PROBIT_TAIL, tail, score * (score + eta)))

    def third(self, eta: FloatArray) -> FloatArray:
        """Return the third derivative c (2 s + eta) - s of log p, to 1e-12 in absolute terms."""
        eta = np.asarray(eta, dtype=np.float64)
        score = self.score(eta)
        # far out it is 2 / |eta|^3, below the rounding error of the difference
        return np.asarray(np.where(eta < PROBIT_TAIL, 0.0, self.curvature(eta) * (2.0 * score + eta) - score))

    def probability(self, eta: FloatArray) -> FloatArray:
        """Return P(y = +1) for the linear predictor eta = x . beta."""
        return np.asarray(special.ndtr(eta))


logistic = Logistic()
probit = Probit()

LIKELIHOODS: dict[str, Likelihood] = {"logistic": logistic, "probit": probit}


def check_likelihood(likelihood: "str | Likelihood", name: str = "likelihood") -> Likelihood:
    """Return the likelihood of that name."""
    if isinstance(likelihood, Logistic | Probit):
        return likelihood
    return LIKELIHOODS[check_choice(likelihood, name, LIKELIHOODS)]
