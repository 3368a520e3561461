r"""The certificate: can a coreset's draws be used for the full data's posterior? From one pass over them, or a few.

The affine transport corrects the draws, importance weights tell what is left (`weigh`), and the errors of the draws as
they are, with the Monte Carlo errors of both, follow (see `estimates`). In this order:

=============  =========================================================================================================
not certified  the draws are not of the coreset's posterior (`provenance`), too few, diverged, or of chains that
               disagree (`results.unfit`): said before any pass over the data
not certified  k-hat of the weights is 0.7 or more (of S < 2,200 draws, 1 - 1 / log10 S), or less than a fifth of the
               draws is left effective
certified      the chance that any mean, sd or correlation of the draws is off by more than 0.25 is at most one in a
               thousand by the stated errors, the coreset's part in that at most 0.1 (tails apart), no tail quantile off
               by more than a quarter of its distance from the median, or of an sd if that is more, the mean and sd of
               no linear combination of coefficients off by more than 0.25 by the map, no group effect or log of its sd
               by more than 0.1, and the log weights' sd below 0.5
corrected      the chance of an error above 0.25, and tails, are within these limits for `Certificate.idata`
not certified  otherwise: more draws are needed, and the text says how many
=============  =========================================================================================================

Draws that were made from all rows need no weights, and are judged by their own figures alone (`whole`). The pass gives
the full data's expected log pointwise predictive density too, see `elpd`.

The certificate: can a coreset's draws be used for the full data's posterior? `certify` is the door.

Certificates of a posterior that was updated: new rows are read, earlier ones stand by what is known of them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bayescore.compiled import one_blas_thread
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset, joined
from bayescore.data.design import Grouping, effect_name
from bayescore.diagnostics.certificate.estimates import bare_table
from bayescore.diagnostics.certificate.provenance import altered_variable
from bayescore.diagnostics.certificate.verdict import Judgement, judge, verdict
from bayescore.diagnostics.certificate.weigh import Weighed, Weigher, corrected_idata
from bayescore.diagnostics.certificate.whole import AllRows, weigher_of
from bayescore.diagnostics.elpd import SampledCounts, sampled_counts
from bayescore.diagnostics.model_check import ROWS, SEED, dispersion, residual_dispersion
from bayescore.diagnostics.results import CertificateData, Level, Need, Remedy, unfit
from bayescore.diagnostics.row_sums import full_rows
from bayescore.families.family import check_family
from bayescore.limits import MAX_FAILURE_PROBABILITY
from bayescore.numerics.moments import bound_of_means, risk
from bayescore.samplers.posterior import Posterior, as_sampled, has_fewer_draws, read_posterior, with_own_model_attrs
from bayescore.samplers.summaries import DataUnits, scale_names
from bayescore.text import counted, first_difference, number, with_error
from bayescore.types import IntArray, WeightedData
from bayescore.validation import DataError, check_integer

_DISPERSION_DRAWS = 500  # at which rates are found


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(CertificateData):
    """What `certify` found, with its figures in `CertificateData`; prints itself and writes a page.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=1, progressbar=False)
    >>> idata = bc.sample(core, random_seed=2, progressbar=False)
    >>> certificate = bc.certify(idata, core, X, y, progressbar=False)
    >>> print(str(certificate).splitlines()[0])
    CERTIFIED
    >>> bool(certificate.coordinates.loc["x0", "mean_error_sd"] < 0.1)
    True
    >>> certificate.to_html("certificate.html", idata, core)  # doctest: +SKIP
    """

    def __repr__(self) -> str:
        later = ": use Certificate.idata" * (self.level is Level.CORRECTED)
        lines = [f"{self.headline}{later}", f"  {self.text}"]
        lines += [f"  {check.what}: {check.found}" for check in self.checks]
        if self.n_passes:
            lines.append(f"  {counted(self.n_passes, 'pass', 'passes')} over the full data")
        if self.trusted:
            lines += [f"  {said}" for said in self._sds()]
        if self._elpd_text:
            figure = " ± ".join(filter(None, with_error(self.elpd_loo, self.elpd_loo_se)))
            lines.append(f"  elpd_loo {figure} ({self._elpd_text})")
        if self.dispersion is not None:
            lines.append(f"  {self.dispersion.text}")
        if not np.isnan(self.elpd_logo):
            lines.append(f"  elpd by leaving a group out {self.elpd_logo:,.1f} ± {self.elpd_logo_se:,.1f}")
        return "\n".join(lines)

    def _sds(self) -> list[str]:
        """Return a line on the sd of each kind of effects."""
        factors: dict[str, list[str]] = {}
        for factor, _, effect in self.effects.index:
            names = factors.setdefault(factor, [])
            if effect not in names:
                names.append(effect)
        said = []
        for factor, effects in factors.items():
            for effect, name in zip(effects, scale_names(Grouping(factor, (), tuple(effects))), strict=True):
                shown = self.coordinates.loc[name, ["corrected_mean", "corrected_2.5%", "corrected_97.5%"]]
                sd, *ends = map(number, np.exp(shown.to_numpy(float)))
                what = effect_name(factor, effect)
                said.append(f"sd of the effects of {what} {sd} (95% interval {' to '.join(ends)})")
        return said

    def to_html(self, path: str | Path, idata: Any, core: Coreset, *, test: WeightedData | None = None) -> None:
        """Write a report of one HTML file: the verdict, own and corrected figures, the chains and the coreset.

        With `test`, rows of ``all_rows(..., design=core.design)``, the model's fit is checked on these.

        Raises
        ------
        OSError
            If the file cannot be written; an earlier file of that name is then untouched.
        """
        from bayescore.report.pages import write_certificate  # pages need Matplotlib, which is slow to import

        write_certificate(self, idata, core, path, test=test)


def certify(
    idata: Any,
    core: Coreset,
    data: Any,
    y: Any = None,
    *,
    label: str | None = None,
    weights: Any = None,
    offset: Any = None,
    trials: Any = None,
    exposure: Any = None,
    missing: str = "raise",
    groups: Any = None,
    model: Any = None,
    max_draws: int = 500,
    progressbar: bool = True,
) -> Certificate:
    """Check a coreset's posterior against the full data, in one pass over them or a few, and correct it.

    Parameters
    ----------
    idata : InferenceData
        Posterior of `core`, from `sample`.
    core : Coreset
        The coreset that was sampled.
    data, y, label, weights, offset, trials, exposure, missing, groups
        The full data, as given to `build_coreset`, or from `all_rows` in the coreset's design. Label, weights, offset,
        trials, exposure and groups that were columns of a table are by default the same columns.
    model : pm.Model, optional
        The user's own model that the draws are of, with `weighted_potential` of the coreset and the coefficients named
        "beta", whose draws come back with family and design. Without it, draws that `sample` did not make are
        certified only if the prior matters little.
    max_draws : int
        Draws that are weighted, evenly spaced; all draws if a correction by the affine map alone is not enough.
    progressbar : bool
        Show progress.

    Returns
    -------
    Certificate
        Of every kind of model; its fields are those of `diagnostics.results.CertificateData`.

    Raises
    ------
    DataError
        If posterior, coreset and data have different features, the data are not those of the coreset, `model` has
        no potential of it, or `max_draws` with so many groups take more than 8 GiB.

    References
    ----------
    Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25. Magnusson, Vehtari,
    Jonasson and Andersen (2020), Leave-one-out cross-validation for Bayesian model comparison in large data, AISTATS.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=1, progressbar=False)
    >>> idata = bc.sample(core, random_seed=2, progressbar=False)
    >>> certificate = bc.certify(idata, core, X, y, progressbar=False)
    >>> print(certificate.level, certificate.n_passes)
    certified 1
    """
    roles = {"label": label, "weights": weights, "offset": offset, "trials": trials, "exposure": exposure}
    roles |= {"groups": groups, "missing": missing}
    return certified_by_rows(idata, core, data, y, roles, model=model, max_draws=max_draws, progressbar=progressbar)


def certified_by_rows(
    idata: Any,
    core: Coreset,
    data: Any,
    y: Any,
    roles: Mapping[str, Any],
    *,
    model: Any = None,
    max_draws: int,
    progressbar: bool,
    predictive: bool = True,
) -> Certificate:
    """Return what `certify` does; unless it is to be `predictive`, without elpd and dispersion."""
    if not isinstance(core, Coreset):
        raise TypeError(f"core is {_with_article(type(core).__name__)}; give the coreset whose posterior idata is")
    idata = as_sampled(idata) if model is None else with_own_model_attrs(idata, core)
    posterior = read_posterior(idata, "idata")
    check_integer(max_draws, "max_draws", low=100)
    if posterior.features != core.feature_names:
        drawn, expected = first_difference(posterior.features, core.feature_names)
        raise DataError(
            f"idata has the features {drawn}, the coreset {expected}; certify the posterior of this coreset"
        )
    family = check_family(posterior.attrs.get("family", core.family))
    dataset = full_rows(core, data, y, progress=progressbar, **roles)
    with one_blas_thread():  # the matrices are small, and threads of BLAS would wait for each other
        weigher = weigher_of(idata, posterior, core, dataset, model=model)
        weigh = AllRows(weigher, posterior, family).weigh if core.lossless else weigher.weigh
        merged = isinstance(data, Coreset) and data.method != "full"  # its rows tell neither dispersion nor elpd
        weighted, counts = core.design.weighted or dataset.design.weighted, None  # weights would multiply both
        if family.counts and predictive and not (merged or weighted):
            counts = partial(sampled_counts, dataset, family, ROWS, SEED)
        tells_elpd = counts is not None if family.counts else not (family.numbers and merged)
        elpd = predictive and tells_elpd
        return certified_by(idata, posterior, weigher, max_draws, weigh, elpd=elpd, counts=counts)


def certified_by(
    idata: Any,
    posterior: Posterior,
    weigher: Weigher,
    max_draws: int,
    weigh: Callable[[IntArray], Weighed],
    *,
    elpd: bool,
    counts: Callable[[], SampledCounts] | None = None,
) -> Certificate:
    """Return the certificate of draws whose coefficients were read as `posterior`, some of them weighed by `weigh`.

    ``counts()`` samples the full data's counts, in one more pass, for elpd and dispersion.
    """
    judged = weigher.posterior
    trouble, remedy = weigher.provenance(), Remedy(Need.ORIGIN)
    if not trouble and (few := unfit(judged)) is not None:
        trouble, remedy = few
    if not trouble:
        trouble = weigher.missed_identities() or altered_variable(idata, posterior)
        if not trouble and (missed := weigher.missed_tails()) is not None:
            trouble, remedy = missed
    if trouble:  # no pass over the data could help
        table = bare_table(judged, DataUnits(weigher.core.design))
        return Certificate(Level.NOT_CERTIFIED, trouble, table, n_draws=len(judged.flat), remedy=remedy)
    judgement = judge(weigher, max_draws, weigh)
    level, text, asked = verdict(judgement, weigher)
    trusted, whole = level is not Level.NOT_CERTIFIED, judgement.whole
    corrected = None
    if whole.exact:
        corrected = idata if trusted else None
    elif risk(judgement.left) <= MAX_FAILURE_PROBABILITY and trusted:
        corrected = corrected_idata(idata, posterior, whole, judgement.kept)
    elif level is Level.CERTIFIED:  # too few to tell how good corrected ones are: those as they are
        corrected = idata
    sampled = counts() if trusted and counts is not None else None
    over, core = None, weigher.core
    if trusted and (sampled is not None or core.numbers):
        kept = read_posterior(idata if corrected is None else corrected, "idata").predictor(_DISPERSION_DRAWS)
        family = check_family(posterior.attrs.get("family", core.family))
        if sampled is None:
            over = residual_dispersion(core, kept, family)
        else:
            over = dispersion(sampled, kept, family, exposed=core.design.exposure is not None)
    all_corrected = corrected is not None and corrected is not idata and not has_fewer_draws(corrected, idata)
    return Certificate(
        level=level,
        text=text,
        coordinates=judgement.coordinates,
        effects=judgement.effects,
        pareto_k=whole.weights.pareto_k,
        ess=whole.weights.ess,
        n_draws=len(whole.at),
        epsilon=whole.epsilon,
        log_ratio_sd=whole.weights.spread,
        risk=risk(judgement.raw),
        corrected_risk=risk(judgement.left),
        transported=whole.transport is not None,
        idata=corrected,
        remedy=asked,
        dispersion=over,
        **(judgement.first.elpd(sampled) if trusted and elpd else {}),
        n_passes=weigher.dataset.n_passes,
        mean_bound=_mean_bound(level, judgement, delivered=all_corrected),
    )


def _mean_bound(level: Level, judgement: Judgement, *, delivered: bool) -> float:
    """Return by how many sds means of draws that can be used may be off; `delivered` where all are corrected, too."""
    if level is Level.NOT_CERTIFIED:
        return math.nan
    if level is Level.CORRECTED:
        return bound_of_means(judgement.left)
    kinds = [judgement.raw, judgement.left] if delivered else [judgement.raw]
    of_effects = np.abs(judgement.effects["mean_error_sd"].to_numpy()).max(initial=0.0)
    return max(float(of_effects), *map(bound_of_means, kinds))


def _with_article(kind: str) -> str:
    return f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}"


def certify_update(idata: Any, core: Coreset, before: Coreset, new: Dataset, *, max_draws: int) -> Certificate:
    """Check the posterior of a coreset of earlier and of `new` rows, without reading the earlier ones.

    The rows of `before`, their coreset, and its shortfall stand for them; passes are over these and the new rows. There
    is no leave-one-out density, as rows of a coreset are not to be predicted.
    """
    posterior = read_posterior(idata, "idata")
    weight = float(before.weights.sum()) + core.weight_total - before.weight_total
    with one_blas_thread():
        carried = before.shortfall if before.family == posterior.attrs.get("family", core.family) else None
        judged = replace(core, weight_total=weight)
        weigher = weigher_of(idata, posterior, judged, joined(before, new), carried=carried)
        return certified_by(idata, posterior, weigher, max_draws, weigher.weigh, elpd=False)
