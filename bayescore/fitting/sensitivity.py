r"""How a posterior moves with the scale of its prior, from the draws of one coreset.

A draw beta of the posterior under the prior p has under another prior p' the importance weight

.. math:: w \propto p'(\beta) / p(\beta),

Pareto smoothed. It needs neither likelihood nor rows. Where k-hat says that the weights do not do, the coreset is
sampled again under p'.

Reference: Kallioinen, Paananen, Bürkner and Vehtari (2024), Detecting and diagnosing prior and likelihood sensitivity
with power-scaling, Statistics and Computing 34.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bayescore.diagnostics.full_weights import full_weights
from bayescore.fitting.parts import FitParts
from bayescore.fitting.units import described, interval_names, parameters
from bayescore.limits import PROB
from bayescore.models.priors import ByName, Prior, prior_from_dict
from bayescore.samplers.inference_data import read_posterior
from bayescore.samplers.prior_summary import prior_summary
from bayescore.samplers.sample import sample
from bayescore.types import FloatArray
from bayescore.validation import DataError, check_positive

SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)


class FitPriors(FitParts):
    """What a fit says about its prior; see `Fit`."""

    def prior_summary(self) -> pd.DataFrame:
        """Return the prior of each coefficient, as the design's columns and as the data's own have it.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = 10.0 * rng.normal(size=(2000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=2000) > 0, random_state=1, progressbar=False)
        >>> fit.prior_summary()["in_data_units"]["Intercept"]
        "Normal(mu=0, sigma=2.5), at the columns' means"
        """
        return prior_summary(self.drawn)

    def prior_sensitivity(self, scales: Sequence[float] = SCALES, *, prob: float = PROB) -> pd.DataFrame:
        """Return how the parameters move when the scale of the coefficients' prior is multiplied.

        Nothing is read or built again: the draws are weighed by the ratio of the priors, and where the weights do not
        do (Pareto k-hat), the coreset is sampled again. These draws are not certified; `with_prior` does that.

        Parameters
        ----------
        scales : list of float
            What the scales of the prior are multiplied by, each above 0.
        prob : float
            Probability of the equal-tailed interval.

        Returns
        -------
        DataFrame
            A row for each scale and parameter, in units of the data: mean, sd and interval; `shift`, how far the mean
            is from that of the fit, in sds of the fit; `by`, "weights" or "new draws"; and `pareto_k` of the weights.

        Raises
        ------
        ValueError
            If a scale is not positive.
        DataError
            If the prior has no scale that is a coefficient's own, as a multivariate one, or the draws' spread is
            cluster-robust.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=300) > 0, random_state=1, progressbar=False)
        >>> table = fit.prior_sensitivity([0.1, 1.0])
        >>> table[table["parameter"] == "x0"]["shift"].abs().round().tolist()
        [2.0, 0.0]
        """
        self._check_model_spread("prior_sensitivity")
        interval_names(prob)
        if np.ndim(scales) != 1:
            raise TypeError(f"scales={scales!r} is no list; give factors of the prior's scale, such as [0.5, 1, 2]")
        factors = [check_positive(scale, f"scales[{place}]") for place, scale in enumerate(scales)]
        if not factors:
            raise ValueError("scales is empty; give factors of the prior's scale, such as [0.5, 1, 2]")
        posterior, story = self.posterior(), read_posterior(self.drawn, "fit.drawn").story
        if not story:
            raise DataError("the draws are of a model of your own, whose prior the fit does not know; see with_prior")
        prior = prior_from_dict(story["prior"])
        names, own = parameters(posterior)
        draws = own.reshape(-1, own.shape[2]).T
        center, sd = draws.mean(axis=1), draws.std(axis=1, ddof=1)
        tables = []
        for factor in factors:
            other = rescaled(prior, factor)
            found, k = None, np.nan
            if prior.closed_form:
                weights = full_weights(other.log_density(posterior.flat) - prior.log_density(posterior.flat))
                found, k = _weighed(draws, weights.weights, prob) if weights.good else None, weights.pareto_k
            by = "new draws" if found is None else "weights"
            if found is None:
                again = parameters(read_posterior(self._drawn_again(other), "idata"))[1]
                found = described(again.reshape(-1, again.shape[2]).T, prob)
            table = pd.DataFrame({"parameter": names, **found})
            table.insert(0, "scale", factor)
            tables.append(table.assign(shift=(found["mean"] - center) / sd, by=by, pareto_k=k))
        return self._labelled(pd.concat(tables, ignore_index=True))

    def _drawn_again(self, prior: Prior) -> Any:
        """Draw from the coreset's posterior under another prior."""
        own = self.drawn.posterior
        of_groups: Any = {} if self.group_prior is None else {"group_prior": self.group_prior}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the cap of max_gradients", UserWarning)
            return sample(
                self.coreset,
                family=self.coreset.family,
                prior=prior,
                sampler=own.attrs["sampler"],
                draws=own.sizes["draw"],
                tune=int(own.attrs["tuning_steps"]),
                chains=own.sizes["chain"],
                random_seed=self.seed,
                progressbar=False,
                **of_groups,
            )


def rescaled(prior: Prior, factor: float) -> Prior:
    """Return a prior with its scales multiplied."""
    if isinstance(prior, ByName):
        return replace(prior, priors=tuple((name, rescaled(own, factor)) for name, own in prior.priors))
    names = [name for name in prior.in_units if name in prior.positive]
    if not names:
        raise DataError(
            f"prior={prior} has no scale that is a coefficient's own; give the fit another, or see with_prior"
        )
    return prior.replaced(**{name: _times(getattr(prior, name), factor) for name in names})


def _times(value: Any, factor: float) -> Any:
    return tuple(factor * each for each in value) if isinstance(value, tuple) else factor * value


def _weighed(draws: FloatArray, weights: FloatArray, prob: float) -> dict[str, FloatArray]:
    """Return mean, sd and interval of weighed draws, shape (K, S), by the names of `described`."""
    mean = draws @ weights
    sd = np.sqrt(np.maximum((draws - mean[:, None]) ** 2 @ weights, 0.0))
    low, high, tail = interval_names(prob)
    ends = [_quantiles(draws, weights, p) for p in (tail, 1.0 - tail)]
    return {"mean": mean, "sd": sd, low: ends[0], high: ends[1]}


def _quantiles(draws: FloatArray, weights: FloatArray, p: float) -> FloatArray:
    order = np.argsort(draws, axis=1)
    middle = np.cumsum(weights[order], axis=1) - 0.5 * weights[order]
    rows = zip(middle, np.take_along_axis(draws, order, axis=1), strict=True)
    return np.array([np.interp(p, at, values) for at, values in rows])
