r"""The certificate of draws with groups: importance weights on (beta, log sigma), effects integrated out on both sides.

At some of the draws the log-likelihood of each group of the full data is found at nodes of its effect, in one pass; the
nodes are those that the coreset's own quadrature has there. The sums over nodes give, for each draw, the full data's
marginal likelihood and with it the weight

.. math:: \log w = \sum_g \log \int p(y_g | \beta, b) N(b; 0, \sigma^2) db - \text{the same of the coreset},

in p + 1 dimensions, whatever the number of groups; the priors cancel. Means and sds of each effect given the full data
follow from the same pass, and so do draws of the effects. Verdicts are those of `certificate`, by the same limits,
Stein's identities of (beta, log sigma) among them (`origin`); the effects' means and sds too must be within `CLOSE`,
and the nodes must cover each effect given the full data. Corrected draws are the weighed ones, resampled, with effects
drawn anew.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from bayescore.compat import inference_data, psislw
from bayescore.data.coreset import Coreset
from bayescore.data.opened import Opened
from bayescore.diagnostics.coefficients import bare_table, table
from bayescore.diagnostics.corrected import systematic
from bayescore.diagnostics.family import Family, close, risk, worst
from bayescore.diagnostics.figures import Run, families
from bayescore.diagnostics.figures import target as figures
from bayescore.diagnostics.full_weights import FullWeights
from bayescore.diagnostics.group_draws import with_log_sigma
from bayescore.diagnostics.group_weights import Weighed, check_bytes, weigh
from bayescore.diagnostics.health import unfit
from bayescore.diagnostics.origin import NORMAL, STEIN_DRAWS, stein
from bayescore.diagnostics.report import write_certificate
from bayescore.diagnostics.results import Level, MultilevelCertificateData
from bayescore.diagnostics.tails import tail_k
from bayescore.diagnostics.wording import number
from bayescore.limits import CLOSE, MAX_K, MAX_LOG_RATIO_SD, MIN_ESS_SHARE, RISK
from bayescore.models.collapsed import collapsed_density
from bayescore.models.collapsed_target import CollapsedTarget
from bayescore.models.effect_draws import effects_given
from bayescore.models.group_priors import group_prior_from_dict
from bayescore.models.priors import prior_from_dict
from bayescore.samplers.collapsed import intraclass_correlation
from bayescore.samplers.inference_data import Posterior, draws_digest
from bayescore.types import FloatArray, IntArray, WeightedData


@dataclass(frozen=True, eq=False, repr=False)
class MultilevelCertificate(MultilevelCertificateData):
    """What `certify` found of draws with groups, with its figures in the base class; prints itself, writes a page.

    Examples
    --------
    >>> import numpy as np, pandas as pd, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> g = np.repeat(np.arange(40), 50)
    >>> x = rng.normal(size=2000)
    >>> y = x + 0.7 * rng.normal(size=40)[g] + rng.logistic(size=2000) > 0
    >>> table = pd.DataFrame({"y": y, "x": x, "g": g})
    >>> core = bc.build_coreset(table, formula="y ~ x + (1 | g)", random_state=1, progressbar=False)
    >>> idata = bc.sample(core, random_seed=2, progressbar=False)
    >>> certificate = bc.certify(idata, core, table, progressbar=False)
    >>> certificate.trusted, certificate.factor
    (True, 'g')
    >>> len(certificate.effects)
    40
    """

    def __repr__(self) -> str:
        lines = [f"Certificate: {self.level}", f"  {self.text}"]
        if self.n_passes:
            lines.append(f"  {self.n_passes} passes over the full data")
        if self.trusted:
            shown = ["corrected_mean", "corrected_q03", "corrected_q97"]
            sd, *ends = map(number, np.exp(self.coordinates.loc[f"log sigma_{self.factor}", shown].to_numpy(float)))
            lines.append(f"  sd of the effects of {self.factor} {sd} (94% interval {' to '.join(ends)})")
        if not math.isnan(self.elpd_logo):
            lines.append(f"  elpd by leaving a group out {self.elpd_logo:,.1f} ± {self.elpd_logo_se:,.1f}")
        return "\n".join(lines)

    def to_html(self, path: str | Path, idata: Any, core: Coreset, *, test: WeightedData | None = None) -> None:
        """Write a report of one HTML file: verdict, variance between groups, effects, coefficients, chains, coreset.

        With `test`, rows of ``full_data(..., design=core.design)`` of groups that the coreset knows, the model's fit is
        checked on these; without it on the coreset's own rows, unless these are pseudo-rows.

        Raises
        ------
        DataError
            If `test` has rows of new groups, or another design.
        OSError
            If the file cannot be written; an earlier file of that name is then untouched.
        """
        write_certificate(self, idata, core, path, test=test)


def certify_groups(idata: Any, posterior: Posterior, core: Coreset, opened: Opened, max_draws: int) -> Any:
    """Return the `MultilevelCertificate` of draws from `sample` of a coreset with groups."""
    trouble = trouble_of(idata, posterior, core)
    factor = core.groups[0].name
    joint = with_log_sigma(idata, posterior, factor) if f"sigma_{factor}" in idata["posterior"] else posterior
    trouble = trouble or unfit(joint)
    if not trouble:
        chosen = joint.positions(max_draws)
        check_bytes(len(chosen), len(core.groups[0]))
        target = _target(posterior, core)
        trouble = _miss(joint, target)
    if trouble:
        return MultilevelCertificate(
            Level.NOT_CERTIFIED,
            trouble,
            math.nan,
            math.nan,
            len(joint.flat),
            math.nan,
            math.nan,
            bare_table(joint),
            factor=factor,
        )
    found = weigh(joint.flat[chosen], core, opened, target)
    w, run = found.weights.weights, Run(joint.draws)
    full = figures(run, chosen, w)
    heavy = np.zeros(joint.draws.shape[2], dtype=bool)
    raw = families(run, joint.features, heavy, full)
    kept = systematic(w)
    corrected = joint.flat[chosen][kept].reshape(len(joint.draws), -1, joint.draws.shape[2])
    left = families(Run(corrected), joint.features, heavy, full, resampled=True)
    effects = _effects(core.groups[0].levels, found, float(full.slow.max()))
    level, text = verdict(found.weights, found.missed, raw, left, effects)
    elpd = _leave_group_out(found) if level is not Level.NOT_CERTIFIED else (math.nan, math.nan)
    good = level is not Level.NOT_CERTIFIED and risk(left) <= RISK
    return MultilevelCertificate(
        level=level,
        text=text,
        pareto_k=found.weights.pareto_k,
        ess=found.weights.ess,
        n_draws=len(chosen),
        epsilon=math.nan,
        log_ratio_sd=found.weights.spread,
        coordinates=table(joint, tail_k(joint.flat), heavy, raw, full),
        risk=risk(raw),
        corrected_risk=risk(left),
        n_passes=opened.n_passes,
        idata=_corrected(idata, posterior, factor, found, corrected, kept) if good else None,
        effects=effects,
        elpd_logo=elpd[0],
        elpd_logo_se=elpd[1],
        factor=factor,
    )


def trouble_of(idata: Any, posterior: Posterior, core: Coreset) -> str:
    """Return why the draws are none that `sample` made of this coreset; empty if they are."""
    story, attrs = posterior.story, posterior.attrs
    if "corrected" in attrs:
        return "The draws are corrected ones already; certify the posterior that they came from."
    if not story or "effects_of" not in attrs:
        return "The draws were not made by bayescore.sample of a coreset with groups; sample it."
    if story["rows"] != core.rows_digest:
        return "The draws are of another coreset's posterior, or the coreset was changed; sample this one."
    told = {"beta": story["draws"], **json.loads(attrs["effects_of"])}
    source = idata["posterior"]
    if any(name not in source or draws_digest(source[name].values) != own for name, own in told.items()):
        return "The draws were changed after sampling; certify what sample returned."
    return ""


def _target(posterior: Posterior, core: Coreset) -> CollapsedTarget:
    """Return the marginal posterior that draws are of."""
    priors = (
        prior_from_dict(posterior.story["prior"]),
        group_prior_from_dict(json.loads(posterior.attrs["group_prior"])),
    )
    return CollapsedTarget.of(core, posterior.likelihood, priors, len(core.groups[0]))


def _miss(joint: Posterior, target: CollapsedTarget) -> str:
    """Return how draws of (beta, log sigma) miss Stein's identities of their density; empty if they do not."""
    draws, arguments, factor = joint.flat[joint.positions(STEIN_DRAWS)], target.arguments(), target.factor
    gradients = np.empty_like(draws)
    for theta, gradient in zip(draws, gradients, strict=True):
        collapsed_density(theta, gradient, arguments)
    if np.isfinite(gradients).all() and np.isfinite(draws).all():
        shape = (len(joint.draws), -1, draws.shape[1])
        found = stein(
            draws.reshape(shape), gradients.reshape(shape), factor @ factor.T, list(joint.features), most=NORMAL
        )
    else:
        found = "at some of them its density has no finite gradient."
    if not found:
        return ""
    return (
        f"The draws are not those of the marginal posterior of the coreset: {found} If nobody changed them, sample "
        "again, with longer warm-up."
    )


def _effects(levels: tuple[Any, ...], found: Weighed, slow: float) -> pd.DataFrame:
    w = found.weights.weights
    own, own_sd = found.core.over(np.full(len(w), 1.0 / len(w)))
    mean, sd = found.full.over(w)
    with np.errstate(all="ignore"):  # an effect that the nodes miss
        columns = {
            "mean": own,
            "sd": own_sd,
            "corrected_mean": mean,
            "corrected_sd": sd,
            "mean_error_sd": (own - mean) / sd,
            "log_sd_error": np.log(own_sd / sd),
            "log_sd_error_mcse": slow * found.full.log_sd_mcse(w),
            "weight": found.labels.sum(axis=1),
            "share": found.labels[:, 0] / found.labels.sum(axis=1),
        }
    return pd.DataFrame(columns, index=pd.Index(levels, name="group"))


def verdict(
    weights: FullWeights, n_missed: int, raw: list[Family], left: list[Family], effects: pd.DataFrame
) -> tuple[Level, str]:
    """Return level and text, given the effects' errors and how many effects lie where the coreset does not look."""
    # of arrays, not of columns: NaN is the worst, and within no limit
    mean_error = float(np.abs(effects["mean_error_sd"].to_numpy()).max())
    sd_error = np.abs(effects["log_sd_error"].to_numpy())
    sure = float((sd_error + 2.0 * effects["log_sd_error_mcse"].to_numpy()).max())
    k = f"Pareto k-hat is {number(weights.pareto_k, 2)}"
    remedy = (
        "Build the coreset anew with the prior and group_prior that you sample with, or sample full_data(...) if its "
        "rows are few"
    )
    if not weights.good or n_missed:
        missed = f", and {n_missed:,} group effects lie where the coreset does not look" * bool(n_missed)
        return Level.NOT_CERTIFIED, (
            f"{k} (limit {number(weights.max_k, 2)}), the effective sample size {weights.ess:.0f} of "
            f"{len(weights.weights)} (limit {MIN_ESS_SHARE:.0%}){missed}: the coreset's posterior does not cover the "
            f"full data's. {remedy}."
        )
    of_effects = (
        f"of {len(effects):,} group effects the worst mean is off by {number(mean_error, 2)} sd, the worst sd by "
        f"{number(100.0 * float(np.expm1(sd_error.max())), 2)}%"
    )
    exact = mean_error <= CLOSE and sure <= CLOSE
    if close(raw) and risk(raw) <= RISK and weights.spread < MAX_LOG_RATIO_SD and exact:
        return Level.CERTIFIED, f"{k} and at worst {worst(raw)}; {of_effects}."
    if risk(left) <= RISK:
        return Level.CORRECTED, (
            f"{k}, but of the draws as they are {worst(raw)}; {of_effects}. Use the corrected draws "
            f"(Certificate.idata), of which at worst {worst(left)}."
        )
    return (
        Level.NOT_CERTIFIED,
        f"{k}, but even of the corrected draws {worst(left)}. More draws may do; else: {remedy}.",
    )


def _leave_group_out(found: Weighed) -> tuple[float, float]:
    """Return the expected log predictive density of a left-out group, summed over groups, and its standard error."""
    log_p = found.full.log_p[:, :-1].T
    smoothed, k = psislw(found.weights.log_ratio - log_p)
    if (k > MAX_K).mean() > 0.01:
        return math.nan, math.nan
    each = special.logsumexp(log_p + smoothed, axis=1)
    return float(each.sum()), float(np.sqrt(len(each) * each.var()))


def _effects_at(found: Weighed, s: int, rng: np.random.Generator) -> FloatArray:
    """Return a draw of each group's effect given the full data, shape (G,), at draw s of the rest."""
    at, uniforms = slice(s, s + 1), rng.random((1, found.terms.shape[1] - 1))
    return effects_given(found.terms[at, :-1], found.center[at, :-1], found.scale[at, :-1], uniforms).ravel()


def _corrected(idata: Any, posterior: Posterior, factor: str, found: Weighed, draws: FloatArray, kept: IntArray) -> Any:
    source, shape, rng = idata["posterior"], draws.shape[:2], np.random.default_rng(0)
    u = np.stack([_effects_at(found, s, rng) for s in kept])
    beta = np.ascontiguousarray(draws[..., :-1])
    sigma = np.exp(draws[..., -1])
    values = {"beta": beta, f"sigma_{factor}": sigma, f"u_{factor}": u.reshape(*shape, -1)}
    dims = {"beta": ["feature"], f"u_{factor}": [factor]}
    if f"icc_{factor}" in source:
        values[f"icc_{factor}"] = intraclass_correlation(sigma, posterior.likelihood.name)
    if (design := posterior.design) is not None:
        values["coef"], dims["coef"] = np.array(design.raw_coefficients(beta)), ["feature"]
    coords = {name: list(source[name].values) for name in ("feature", factor)}
    made = inference_data({"posterior": values}, coords=coords, dims=dims)
    attrs = {key: value for key, value in posterior.attrs.items() if key not in ("posterior_of", "effects_of")}
    how = f"resampled by importance weights (effective {found.weights.ess:.0f} of {len(kept)}), effects drawn anew"
    made.posterior.attrs.update(attrs, corrected=how)
    return made
