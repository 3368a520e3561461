r"""The certificate: can a coreset's draws be used for the full data's posterior? From a few passes over them.

A Newton pass and the affine transport correct the draws, importance weights tell what is left (`correction`), and the
errors of the draws as they are, with the Monte Carlo errors of both, follow (see `figures`). In this order:

=============  =========================================================================================================
not certified  the draws are none of the coreset's posterior (`origin`), too few, or of chains that disagree (`health`)
not certified  k-hat of the weights is 0.7 or more, or less than a fifth of the draws is left effective
certified      the chance that any mean, sd or correlation of the draws is off by more than 0.25 is at most one in a
               thousand by the stated errors, the coreset's part in that at most 0.1, no tail quantile off by a quarter
               of its distance from the median, and the log weights' sd below 0.5
corrected      the same is true of the corrected draws, `Certificate.idata`
not certified  otherwise: more draws are needed, and the text says how many
=============  =========================================================================================================

The last pass gives the full data's expected log pointwise predictive density too, see `elpd`.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayescore.coresets.separation.complete import warn_if_completely_separated
from bayescore.data.coreset import Coreset
from bayescore.data.passes.threads import one_blas_thread
from bayescore.diagnostics.corrected import corrected_idata
from bayescore.diagnostics.correction import Correction, Weighted
from bayescore.diagnostics.elpd import Elpd, elpd_loo
from bayescore.diagnostics.figures import Errors, close, errors_left, families, own_errors, risk, settled, table, worst
from bayescore.diagnostics.full_pass import full_rows
from bayescore.diagnostics.health import unfit
from bayescore.diagnostics.origin import Origin, miss, origin_of
from bayescore.diagnostics.report import write_certificate
from bayescore.diagnostics.results import CertificateData, Level
from bayescore.diagnostics.wording import number, with_error
from bayescore.limits import MAX_K, MAX_LOG_RATIO_SD, MAX_TAIL_K, MIN_ESS_SHARE, RISK
from bayescore.models.likelihoods import check_likelihood
from bayescore.models.prior_ratio import OfModel
from bayescore.samplers.inference_data import read_posterior
from bayescore.types import Likelihood
from bayescore.validation import DataError, check_integer

_FOREIGN = (
    "The draws are not as bayescore.sample made them: they are those of the coreset's posterior under a prior that "
    "matters little, and are judged as that."
)
_TIMES = (1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(CertificateData):
    """What `certify` found, with its figures in `CertificateData`; prints itself and writes a page."""

    def __repr__(self) -> str:
        lines = [f"Certificate: {self.level}", f"  {self.text}"]
        if self.n_passes:
            lines.append(f"  {self.n_passes} passes over the full data")
        if self.elpd_text:
            figure = " ± ".join(filter(None, with_error(self.elpd_loo, self.elpd_loo_se)))
            lines.append(f"  elpd_loo {figure} ({self.elpd_text})")
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
    model: Any = None,
    max_draws: int = 500,
    progressbar: bool = True,
) -> Certificate:
    """Check a coreset's posterior against the full data, in a few passes over them, and correct it.

    Parameters
    ----------
    idata : InferenceData
        Posterior of `core`, from `sample`.
    core : Coreset
        The coreset that was sampled.
    data, y, label, weights
        The full data, as given to `build_coreset`; raw features, to which the coreset's design is applied. Or the
        full data as a `Coreset` from `full_data`, of the same design.
    model : pm.Model, optional
        The user's own model that the draws are of, with `weighted_potential` of the coreset and the coefficients named
        "beta". Without it, draws that `sample` did not make are certified only if the prior matters little.
    max_draws : int
        Draws that are weighed, evenly spaced: a log-likelihood for each of them and each row. All draws are, in one
        more pass, where a correction by the affine map alone would not do.
    progressbar : bool
        Show progress.

    Returns
    -------
    Certificate

    Raises
    ------
    DataError
        If posterior, coreset and data have different features, the data are not those of the coreset, or `model` has
        no potential of it.

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
    link = check_likelihood(posterior.attrs.get("likelihood", core.likelihood))
    opened = full_rows(core, data, y, label=label, weights=weights, progress=progressbar)
    with one_blas_thread():  # the matrices are small, and threads of BLAS would wait for each other
        origin = origin_of(posterior, core, link)
        if model is not None and not origin.trouble:
            origin = Origin(_of_model(model, idata, core, link), ours=False)
        movable = origin.prior if not isinstance(origin.prior, OfModel) or origin.prior.moves else None
        passes = Correction(core, opened, link, posterior.flat, movable)
        chosen, every = posterior.positions(max_draws), np.arange(len(posterior.flat))
        weighted = passes.best(chosen)
        warn_if_completely_separated(opened, core)
        trouble = origin.trouble or unfit(posterior) or miss(posterior, core, link, origin)
        found = families(posterior, posterior.flat[chosen], weighted)
        whole, resampled = weighted, not trouble and weighted.good and not settled(found)
        if resampled:  # a correction by the weights needs those of all draws
            whole, chosen = passes.weigh(every, weighted.move), every
            found = families(posterior, posterior.flat, whole)
        raw, left = own_errors(found), errors_left(found, whole, resampled=resampled)
        level, text = _verdict(whole, raw, left, origin, trouble, near=close(found))
        coordinates = table(posterior, found, posterior.flat[chosen], whole)
        text += _without_moments(coordinates["tail_k"].dropna())
        trusted = level is not Level.NOT_CERTIFIED
        moved = weighted.move(posterior.thinned(max_draws))
        elpd = Elpd()
        if trusted:
            density = passes.density(weighted.move)
            elpd = elpd_loo(weighted.sums, weighted.log_ratio, weighted.weights, moved, link, density=density)
    return Certificate(
        level=level,
        text=text,
        pareto_k=weighted.pareto_k,
        ess=weighted.ess,
        n_draws=len(weighted.weights),
        epsilon=weighted.epsilon,
        log_ratio_sd=weighted.spread,
        coordinates=coordinates,
        risk=risk(raw),
        corrected_risk=risk(left),
        transported=weighted.move.map is not None,
        n_passes=opened.n_passes,
        idata=corrected_idata(idata, posterior, whole, resampled=resampled) if trusted else None,
        **asdict(elpd),
    )


def _of_model(model: Any, idata: Any, core: Coreset, link: Likelihood) -> OfModel:
    """Return the prior that a user's model gives to its draws."""
    source = idata["posterior"]
    draws = {str(name): each.values.reshape(-1, *each.shape[2:]) for name, each in source.data_vars.items()}
    found = OfModel(model, draws, core, link)
    found.check()
    return found


def _without_moments(tail_k: pd.Series) -> str:
    """Return a sentence on coordinates that have no moments; empty if all have."""
    if tail_k.empty:
        return ""
    worst_k = float(tail_k.max())
    names = ", ".join(repr(name) for name in tail_k.index[:5]) + (" and others" if len(tail_k) > 5 else "")
    return (
        f" Of {names} the draws' own tail has a Pareto k-hat of {number(worst_k, 2)}: above {MAX_TAIL_K} an sd does "
        "not exist, above 1 nor does a mean, whatever figure draws give. Median and quartiles were judged instead."
    )


def _verdict(
    weighted: Weighted, raw: list[Errors], left: list[Errors], origin: Origin, trouble: str, *, near: bool
) -> tuple[Level, str]:
    if trouble:
        return Level.NOT_CERTIFIED, f"{trouble} Then certify again."
    k = f"Pareto k-hat is {number(weighted.pareto_k, 2)}"
    if not weighted.good:
        return Level.NOT_CERTIFIED, (
            f"{k} (limit {MAX_K}), the effective sample size {weighted.ess:.0f} of {len(weighted.weights)} (limit "
            f"{MIN_ESS_SHARE:.0%}): the coreset's posterior does not cover the full data's, and no correction can be "
            "trusted. Use method='calibrated', or a larger size if it was."
        )
    scope = "" if origin.prior is not None or origin.ours else f" {_FOREIGN}"
    if near and risk(raw) <= RISK and weighted.spread < MAX_LOG_RATIO_SD:
        return Level.CERTIFIED, f"{k} and at worst {worst(raw)}.{scope}"
    if risk(left) <= RISK:
        return Level.CORRECTED, (
            f"{k}, but of the draws as they are {worst(raw)}. Use the corrected draws (Certificate.idata), of which at "
            f"worst {worst(left)}, or a larger size.{scope}"
        )
    times = next((factor for factor in _TIMES if risk(left, shrink=factor**-0.5) <= RISK), None)
    if times is None:
        return Level.NOT_CERTIFIED, (
            f"{k}, but even of the corrected draws {worst(left)}. Use method='calibrated', or a larger size if it was."
        )
    return Level.NOT_CERTIFIED, (
        f"Too few draws to tell: {worst(left)} even of the corrected ones, Monte Carlo error included. About {times:g} "
        "times as many would do."
    )
