r"""The certificate: how far a coreset's posterior is from the full data's, from one pass and without MCMC on them.

For draws theta_s of the coreset's posterior, with L the full data's log-likelihood and L~ the coreset's,

.. math:: r_s = L(\theta_s) - \tilde L(\theta_s)

is, up to a constant, the log of the importance weight that turns the coreset's posterior into the full data's: the
prior cancels. Pareto smoothing of the weights (Vehtari et al. 2024) gives k-hat, an effective sample size, and
corrected moments; k-hat below 0.7 with an effective sample size of a fifth of the draws says that they
cover the full-data posterior and that the correction holds. What
the correction moves is the error of the coreset.

The sd of r predicts the error: below 0.3 the two posteriors are close, above 1 they are not. "certified" is said of
means and sds; correlations are not judged.

The same pass gives the full data's expected log pointwise predictive density, see `elpd`.
"""

from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayescore.compat import psislw
from bayescore.data.coreset import Coreset
from bayescore.diagnostics.elpd import Elpd, PassSums, elpd_loo, pass_sums
from bayescore.diagnostics.full_pass import check_weight, full_rows
from bayescore.diagnostics.health import health
from bayescore.diagnostics.report import write_certificate
from bayescore.diagnostics.results import CertificateData, Level
from bayescore.diagnostics.wording import number, with_error
from bayescore.limits import CERTIFIED, MAX_K, MAX_LOG_RATIO_SD, MAX_RHAT_CERTIFIED, MIN_ESS_SHARE, NEARLY_EQUAL
from bayescore.models.likelihoods import check_likelihood
from bayescore.models.posterior import log_likelihoods
from bayescore.samplers.inference_data import read_posterior
from bayescore.types import FloatArray, Likelihood
from bayescore.validation import DataError, check_integer


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(CertificateData):
    """What `certify` found, with its figures in `CertificateData`; prints itself and writes a page."""

    def __repr__(self) -> str:
        lines = [f"Certificate: {self.level}", f"  {self.text}"]
        if self.elpd_loo_rows:
            value, error = with_error(self.elpd_loo, self.elpd_loo_se)
            lines.append(
                f"  elpd_loo {value} ± {error} (numerical error {number(self.elpd_loo_mcse, 2)}; "
                f"k-hat above {MAX_K} in {self.elpd_loo_bad_k} of {self.elpd_loo_rows} rows)"
            )
        return "\n".join(lines)

    def to_html(self, path: str | Path, idata: Any, core: Coreset) -> None:
        """Write a report of one HTML file: the verdict, own and corrected figures, the chains and the coreset.

        Raises
        ------
        OSError
            If the file cannot be written; an earlier file of that name is then untouched.
        """
        write_certificate(self, idata, core, path)


def certify(
    idata: Any,
    core: Coreset,
    data: Any,
    y: Any = None,
    *,
    label: str | None = None,
    weights: Any = None,
    max_draws: int = 500,
    progressbar: bool = True,
) -> Certificate:
    """Check a coreset's posterior against the full data, in one pass over them.

    Parameters
    ----------
    idata : InferenceData
        Posterior of `core`, from `sample`.
    core : Coreset
        The coreset that was sampled.
    data, y, label, weights
        The full data, as given to `build_coreset`; raw features, to which the coreset's design is applied. Or the
        full data as a `Coreset` from `full_data`, of the same design.
    max_draws : int
        Draws used, evenly spaced. The pass costs a log-likelihood for each draw and row.
    progressbar : bool
        Show progress.

    Returns
    -------
    Certificate

    Raises
    ------
    DataError
        If posterior, coreset and data have different features, or the data are not those of the coreset.

    References
    ----------
    Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25. Magnusson, Vehtari,
    Jonasson and Andersen (2020), Leave-one-out cross-validation for Bayesian model comparison in large data, AISTATS.
    """
    if not isinstance(core, Coreset):
        raise TypeError(f"core is a {type(core).__name__}; give the coreset whose posterior idata is")
    posterior = read_posterior(idata, "idata")
    check_integer(max_draws, "max_draws", low=100)
    if posterior.features != core.feature_names:
        raise DataError(
            f"idata has the features {', '.join(posterior.features[:5])}, the coreset "
            f"{', '.join(core.feature_names[:5])}; certify the posterior of this coreset"
        )
    likelihood = check_likelihood(posterior.attrs.get("likelihood", core.likelihood))
    opened = full_rows(core, data, y, label=label, weights=weights, progress=progressbar)
    draws = posterior.thinned(max_draws)
    flat = draws.reshape(-1, len(posterior.features))
    sums = reduce(
        add,
        opened.map(lambda start, block: pass_sums(flat, start, block, likelihood), "certifying", canonical=True),
    )
    check_weight(core, sums.weight)
    found = _judge(draws, posterior.features, sums, log_likelihoods(flat, core, likelihood), likelihood)
    state = health(posterior)
    if not state.rhat <= MAX_RHAT_CERTIFIED:  # draws that are none of the posterior certify nothing
        return replace(found, level=Level.NOT_CERTIFIED, text=f"{state.text} Then certify again. {found.text}")
    return found


def _judge(
    chains: FloatArray, features: tuple[str, ...], sums: PassSums, own: FloatArray, likelihood: Likelihood
) -> Certificate:
    full, draws = sums.log_likelihood, chains.reshape(len(own), -1)
    ratio = full - own
    ratio -= ratio.max()
    smoothed, k = psislw(ratio)
    spread = float(ratio.std())
    pareto_k = float(k) if spread > NEARLY_EQUAL else 0.0
    w = np.exp(np.asarray(smoothed, dtype=np.float64))
    w /= w.sum()
    coordinates = _coordinates(draws, w, features)
    upper, error = _worst(coordinates)
    ess = float(1.0 / (w**2).sum())
    if not (pareto_k < MAX_K and ess >= MIN_ESS_SHARE * len(w)):
        level = Level.NOT_CERTIFIED
        text = (
            f"Pareto k-hat is {number(pareto_k, 2)} (limit {MAX_K}), the effective sample size {ess:.0f} of {len(w)} "
            f"(limit {MIN_ESS_SHARE:.0%}): the coreset's posterior does not cover the full data's, and no correction "
            "can be trusted. Use method='calibrated', or a larger size if it was."
        )
    elif upper < CERTIFIED and spread < MAX_LOG_RATIO_SD:
        level = Level.CERTIFIED
        text = f"Pareto k-hat is {number(pareto_k, 2)} and at worst {error}."
    else:
        level = Level.CORRECT_IT
        reason = (
            error if upper >= CERTIFIED else f"the log ratio varies by {number(spread, 2)} (limit {MAX_LOG_RATIO_SD})"
        )
        text = (
            f"Pareto k-hat is {number(pareto_k, 2)}, so the corrected moments can be used, but {reason}. "
            "Use the corrected figures, or a larger size."
        )
    elpd = Elpd() if level is Level.NOT_CERTIFIED else elpd_loo(sums, ratio, w, chains, likelihood)
    return Certificate(
        level=level,
        text=text,
        pareto_k=pareto_k,
        ess=ess,
        n_draws=len(draws),
        epsilon=float(np.max(np.abs(full - own) / np.abs(full))),
        log_ratio_sd=spread,
        coordinates=coordinates,
        **asdict(elpd),
    )


def _coordinates(draws: FloatArray, w: FloatArray, features: tuple[str, ...]) -> pd.DataFrame:
    mean, sd = draws.mean(axis=0), draws.std(axis=0)
    better = w @ draws
    better_sd = np.sqrt(w @ (draws - better) ** 2)
    change = (w - 1.0 / len(w))[:, None] ** 2
    squares = (draws - better) ** 2
    order = np.argsort(draws, axis=0)
    quantiles = []
    for q in (0.03, 0.97):
        place = (np.cumsum(w[order], axis=0) < q).sum(axis=0).clip(max=len(w) - 1)
        quantiles.append(draws[order[place, range(draws.shape[1])], range(draws.shape[1])])
    return pd.DataFrame(
        {
            "mean": mean,
            "sd": sd,
            "corrected_mean": better,
            "corrected_sd": better_sd,
            "corrected_q03": quantiles[0],
            "corrected_q97": quantiles[1],
            "mean_error_sd": (mean - better) / sd,
            "mean_error_sd_mcse": np.sqrt((change * squares).sum(axis=0)) / sd,
            "sd_error": 1.0 - better_sd / sd,
            # that of the variance, halved
            "sd_error_mcse": 0.5 * np.sqrt((change * (squares - better_sd**2) ** 2).sum(axis=0)) / sd**2,
        },
        index=pd.Index(features, name="feature"),
    )


def _worst(coordinates: pd.DataFrame) -> tuple[float, str]:
    """Return the largest predicted error with two standard errors on top, and a clause that names it."""
    candidates = []
    for error, quantity, unit, factor in (("mean_error_sd", "mean", " sd", 1.0), ("sd_error", "sd", "%", 100.0)):
        size, mcse = coordinates[error].abs(), coordinates[f"{error}_mcse"]
        row = int(np.argmax(size + 2.0 * mcse))
        value, spread = float(size.iloc[row]), float(mcse.iloc[row])
        figures = f"{number(factor * value, 2)} ± {number(factor * spread, 1)}{unit}"
        candidates.append((value + 2.0 * spread, f"the {quantity} of {coordinates.index[row]!r} is off by {figures}"))
    return max(candidates)
