"""What comparisons and certificates find: words with their numbers, without rendering.

A `Level` is the one word; `Verdict` and `CertificateData` say why, `ComparisonData` has the tables behind verdicts.
The classes that `compare_posteriors` and `certify` return add pictures and pages to these; `report` reads these alone.

Did the chains themselves work? Checked for every posterior before its errors are believed.

Limits, in `limits`: R-hat at most 1.01, bulk and tail effective sample size at least 400; no divergences. Of D
coordinates some R-hat exceeds 1.01 by chance: of m split chains, R-hat^2 - 1 is about chi^2_(m-1) m / ((m - 1) ESS).
Chains disagree where an R-hat is above 1.01 and above what that explains at `FAMILYWISE_ALPHA`, over all coordinates.

Reference: Vehtari et al. (2021), Bayesian Analysis 16, 667-718.
"""

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.special import chdtri

from bayescore.compat import AsArviz
from bayescore.diagnostics.model_check import Dispersion, ModelCheck
from bayescore.limits import (
    FAMILYWISE_ALPHA,
    MAX_BAD_K_SHARE,
    MAX_DRAWS,
    MAX_ERROR,
    MAX_FAILURE_PROBABILITY,
    MAX_K,
    MAX_RHAT,
    MIN_ESS,
    NEGLIGIBLE_ERROR,
)
from bayescore.numerics.chains import bulk_and_rhat, ess
from bayescore.samplers.posterior import Posterior
from bayescore.text import number
from bayescore.types import FloatArray


class Need(StrEnum):
    """What refused draws need."""

    DRAWS = "more draws"
    CHAINS = "chains that agree"
    ROWS = "a coreset that covers the posterior"
    ORIGIN = "draws of the coreset's posterior"


@dataclass(frozen=True)
class Remedy:
    """What to change where draws were refused; a number of 0 stays as it is.

    Parameters
    ----------
    need : Need
        What is missing.
    draws, tune : int
        Draws and warm-up of each chain, of `sample`.
    max_draws : int
        Draws that `certify` weights.

    Examples
    --------
    >>> Remedy(Need.DRAWS, draws=4000).need.value
    'more draws'
    """

    need: Need
    draws: int = 0
    tune: int = 0
    max_draws: int = 0

    def __str__(self) -> str:
        if self.draws > MAX_DRAWS:
            return f"chains that move (else more than {MAX_DRAWS:,} draws of each)"
        given = ", ".join(f"{name}={n}" for name in ("tune", "draws", "max_draws") if (n := getattr(self, name)))
        return f"{self.need} ({given})" if given else str(self.need)


_SPARE = 1.2  # more draws than the effective sample size asks for, which is an estimate


@dataclass(frozen=True)
class Health:
    """State of the chains of one posterior; None is what the sampler does not report."""

    chains: int
    draws: int  # in each chain
    rhat: float  # rank-normalised and split, the largest over coordinates
    ess_bulk: float  # the smallest over coordinates, as `ess_tail`
    ess_tail: float
    divergences: int | None
    acceptance_rate: float | None
    sampling_time: float | None  # seconds
    text: str  # what is wrong and what to do; empty if nothing is

    @property
    def ess_per_second(self) -> float | None:
        """Smallest bulk ESS for each second of sampling."""
        return self.ess_bulk / self.sampling_time if self.sampling_time else None


def health(posterior: Posterior) -> Health:
    """Return the state of a posterior's chains."""
    (bulk, r), tail = bulk_and_rhat(posterior.draws), ess(posterior.draws, "tail")
    low, few, time = np.fmin(bulk, tail), "", posterior.attrs.get("sampling_time")
    if (low < MIN_ESS).any():
        i = int(low.argmin())
        few = f"The effective sample size of {posterior.features[i]!r} is {low[i]:.0f}, below {MIN_ESS}: "
        few += f"{_more_draws_text(posterior, low[i])}."
    return Health(
        chains=posterior.draws.shape[0],
        draws=posterior.draws.shape[1],
        rhat=float(np.fmax.reduce(r)),
        ess_bulk=float(bulk.min()),
        ess_tail=float(tail.min()),
        divergences=posterior.divergences,
        acceptance_rate=posterior.acceptance_rate,
        sampling_time=None if time is None else float(time),
        text=" ".join(
            filter(
                None, [_stuck_text(posterior), _disagreement_text(posterior, r, low), few, _divergence_text(posterior)]
            )
        ),
    )


def unfit(posterior: Posterior) -> tuple[str, Remedy] | None:
    """Return why draws are too few, or their chains are not to be believed, and the remedy; None if they are fit."""
    chains = Remedy(Need.CHAINS, 2 * posterior.draws.shape[1], _doubled_warm_up(posterior))
    if still := _stuck_text(posterior):
        return still, chains
    bulk, r = bulk_and_rhat(posterior.draws)
    low = np.minimum(bulk, ess(posterior.draws, "tail"))
    n_all = posterior.draws.shape[0] * posterior.draws.shape[1]
    low = np.minimum(np.where(np.isnan(low), 0.0, low), n_all)
    if (low < MIN_ESS).any():
        i = int(low.argmin())
        return (
            f"Too few draws: the effective sample size of {posterior.features[i]!r} is {low[i]:.0f}, below {MIN_ESS}; "
            f"{_more_draws_text(posterior, low[i])}."
        ), Remedy(Need.DRAWS, _draws_needed(posterior, low[i]))
    trouble = _disagreement_text(posterior, r, low) or _divergence_text(posterior)
    return (trouble, chains) if trouble else None


def _draws_needed(posterior: Posterior, size: float) -> int:
    """Return how many draws a chain would have the effective sample size that is asked for."""
    n: int = posterior.draws.shape[1]
    return math.ceil(_SPARE * n * MIN_ESS / max(size, 1.0) / 10.0) * 10


def _more_draws_text(posterior: Posterior, size: float) -> str:
    if (needed := _draws_needed(posterior, size)) > MAX_DRAWS:
        return slow_chains()
    return f"sample with draws={needed} in place of {posterior.draws.shape[1]}"


def slow_chains() -> str:
    """Return what to do where more than `MAX_DRAWS` draws of a chain would be needed."""
    return (
        f"more than {MAX_DRAWS:,} draws a chain would be needed, as the chains hardly move: take another sampler, such "
        "as sampler='nuts', give a prior that says more, or leave out terms that the rows tell little of"
    )


def _doubled_warm_up(posterior: Posterior) -> int:
    """Return twice the warm-up."""
    return 2 * max(int(posterior.attrs.get("tuning_steps", 0)), 500)


def longer_warm_up(posterior: Posterior) -> str:
    """Return an argument of `sample` for twice the warm-up."""
    return f"tune={_doubled_warm_up(posterior)}"


def _stuck_text(posterior: Posterior) -> str:
    still = (np.ptp(posterior.draws, axis=1) == 0.0).any(axis=0)
    if not still.any():
        return ""
    name = posterior.features[int(still.argmax())]
    return f"{name!r} never moves: the chains are stuck; sample with {longer_warm_up(posterior)}."


def _disagreement_text(posterior: Posterior, r: FloatArray, low: FloatArray) -> str:
    chains, _, D = posterior.draws.shape
    halves = 2 * max(chains, 2)  # a single chain is compared as its halves, each split again
    size = np.maximum(low, MIN_ESS)  # fewer have a message of their own, and explain no R-hat
    chance = np.sqrt(1.0 + chdtri(halves - 1, FAMILYWISE_ALPHA / D) * halves / ((halves - 1) * size))
    beyond = r - np.maximum(MAX_RHAT, chance)
    if not (beyond > 0.0).any():
        return ""
    i = int(np.nanargmax(beyond))
    return (
        f"R-hat of {posterior.features[i]!r} is {r[i]:.3f}, above {MAX_RHAT} and more than chance explains: the chains "
        f"disagree; sample with {longer_warm_up(posterior)}, draws={min(2 * posterior.draws.shape[1], MAX_DRAWS)}."
    )


def _divergence_text(posterior: Posterior) -> str:
    if not posterior.divergences:
        return ""
    return f"{posterior.divergences:,} transitions diverged: raise target_accept, or use a prior with lighter tails."


class Level(StrEnum):
    """The verdicts: of a candidate compared with a reference, and of a certificate. Equal to their words.

    Examples
    --------
    >>> from bayescore.diagnostics.results import Level
    >>> Level("differs") == "differs"
    True
    """

    INDISTINGUISHABLE = "indistinguishable"
    """No error of the candidate is larger than Monte Carlo error explains."""
    CLOSE = "close"
    """Errors are real and small."""
    DIFFERS = "differs"
    """Some error is real and large."""
    TOO_FEW_DRAWS = "too few draws"
    """Monte Carlo error is too large to tell."""
    CERTIFIED = "certified"
    """The draws can be used as draws of the full data's posterior."""
    CORRECTED = "corrected"
    """The draws cannot; the corrected ones, `CertificateData.idata`, can."""
    NOT_CERTIFIED = "not certified"
    """Neither can."""


@dataclass(frozen=True)
class Verdict:
    """A word on a candidate and the numbers behind it."""

    level: Level
    text: str


_TRUSTED = {Level.CERTIFIED: "CERTIFIED", Level.CORRECTED: "CERTIFIED AFTER CORRECTION"}


@dataclass(frozen=True)
class Check:
    """A line of the check against all rows: what was looked at, the figure and its limit, in words."""

    what: str
    found: str
    limit: str = ""


def _largest(*values: Any) -> float:
    """Return the largest size of some figures, those of no moments left out; NaN where there are no others."""
    sizes = np.abs(np.concatenate([np.asarray(each, dtype=np.float64) for each in values]))
    return float(np.fmax.reduce(sizes)) if len(sizes) else math.nan


def _at_most(value: float, unit: str, least: float) -> str:
    return f"< {least:g} {unit}" if value < least else f"{number(value, 2)} {unit}"


EFFECT_INDEX = ("factor", "group", "effect")
"""Levels of the index of `CertificateData.effects`."""


def no_effects() -> pd.DataFrame:
    """Return the table of effects of a model without group terms."""
    columns = (
        "mean", "sd", "corrected_mean", "corrected_sd", "mean_error_sd", "log_sd_error", "log_sd_error_mcse", "weight",
        "share",
    )  # fmt: skip
    return pd.DataFrame(columns=list(columns), index=pd.MultiIndex.from_tuples([], names=EFFECT_INDEX), dtype=float)


@dataclass(frozen=True, eq=False)
class CertificateData:
    """What `certify` found, whatever the model; what does not apply to one is NaN, 0, None or empty.

    Parameters
    ----------
    level : Level
        "certified", "corrected" or "not certified".
    text : str
        The verdict in words, with its reason and the remedy.
    remedy : Remedy, optional
        What refused draws need, as a value: more draws, chains that agree, a coreset that covers the posterior, or
        draws of the coreset's posterior. None unless the level is "not certified".
    pareto_k : float
        k-hat of the importance weights of the draws; below 0.7 they can be trusted. This and the next four are
        of all draws where all were weighed; NaN where no pass was made.
    ess : float
        Effective sample size of the smoothed weights, of `n_draws`.
    n_draws : int
        Draws used.
    epsilon : float
        Largest ``|L - L~| / |L|`` over those draws: the epsilon that the coreset realises there. NaN of
        pseudo-rows, whose log-likelihood is that of their rows only up to a constant, and with group terms.
    log_ratio_sd : float
        Standard deviation of the log weights: what the affine map, if draws were moved, leaves of the difference
        between the two posteriors.
    coordinates : DataFrame
        A row for each feature, and with group terms for the logarithm of each sd of effects and Fisher's z of each
        correlation. It has mean, sd, and the corrected mean, sd and 2.5% and 97.5% quantiles, in units of the data's
        own columns, as `Fit.summary` has them: the intercept is where all columns are 0. Errors are of what the verdict
        judges, coordinates of standardised columns if the coreset has these; then those of the intercept, and of sds
        and correlations of its effects, are where all columns are at their means. The predicted errors are
        those of the mean in sds (own minus corrected) and of the sd (relative), each with its numerical error
        (`estimates`). The Monte Carlo errors are of the draws' own mean (`mean_mcse_sd`, in sds) and sd (`sd_mcse`,
        relative). `median` is the draws'. For a coordinate without moments they are NaN, and `tail_k` is the k-hat
        of its tail. Only own figures are there if the draws were refused before any pass.
    effects : DataFrame
        A row for each effect of a group, indexed by factor, group and effect ("1" is the intercept). It has its mean
        and sd by the coreset and by the full data, the error of the mean in sds, without its Monte Carlo noise, and
        that of the sd as the logarithm of the ratio, with its numerical error. `weight` is that of the group's rows in
        the full data, `share` the part of it that is +1. Empty without group terms, and where no pass was made.
    risk : float
        Bound of the probability that a mean, sd or correlation of the draws has an error above a quarter (sd, relative,
        or correlation), by these errors; `corrected_risk` that of the corrected draws.
    transported : bool
        Whether the corrected draws were moved by the affine map to the full posterior's mode and scale.
    n_passes : int
        Passes over the full data.
    idata : InferenceData, optional
        The corrected draws; None where no correction can be trusted, or draws are too few for one.
    elpd_loo : float
        Expected log pointwise predictive density of the full data by leave-one-out cross-validation, a row of weight w
        being w copies, and one copy left out: see `elpd`. NaN unless the weights can be trusted, and where k-hat
        is above 0.7 in more than 1 of 100 rows left out. With several group terms, or slopes, it is given the
        effects of the row's groups, which their other rows determine; `(1 | g)` has `elpd_logo` in its place.
    elpd_loo_se : float
        Its standard error as a property of future data: sqrt(W var e) over the W copies, ArviZ's `se`.
    elpd_loo_mcse : float
        Numerical error of `elpd_loo`: the standard error from sampled rows and from finitely many draws.
    elpd_loo_rows, elpd_loo_bad_k : int
        Rows whose own k-hat was computed, a uniform sample of all, and how many of them exceed 0.7. Such a row's part
        is too optimistic, and counts in the numerical error.
    elpd_loo_moved : int
        Rows integrated by moment matching, because their k-hat did exceed it.
    dispersion : Dispersion, optional
        Of counts, whether they are more spread than the model says: ``dispersion.ratio``, ``.over`` and ``.text``.
    mean_bound : float
        Bound of the errors of means of the draws that can be used, in posterior sds, Monte Carlo error included: the
        probability that any error is larger is at most one in a thousand. NaN where none can be used.
    earlier_error : float
        Of an update what the rows before it, which were not read again, may add to errors of means, in sds.
    elpd_logo, elpd_logo_se : float
        Expected log predictive density of the full data by leaving one *group* of `(1 | g)` out at a time, a new
        group's effect averaged over N(0, sigma^2); its standard error over groups. NaN unless the weights can be
        trusted.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=1, progressbar=False)
    >>> idata = bc.sample(core, random_seed=2, progressbar=False)
    >>> certificate = bc.certify(idata, core, X, y, progressbar=False)
    >>> certificate.trusted, certificate.n_passes, certificate.transported
    (True, 1, True)
    >>> list(certificate.coordinates.index)
    ['x0', 'x1']
    >>> certificate.idata.posterior["beta"].dims
    ('chain', 'draw', 'feature')
    """

    level: Level
    text: str
    coordinates: pd.DataFrame
    effects: pd.DataFrame = field(default_factory=no_effects)
    pareto_k: float = math.nan
    ess: float = math.nan
    n_draws: int = 0
    epsilon: float = math.nan
    log_ratio_sd: float = math.nan
    risk: float = math.nan
    corrected_risk: float = math.nan
    transported: bool = False
    n_passes: int = 0
    idata: Any = AsArviz()  # noqa: RUF009 a descriptor
    elpd_loo: float = math.nan
    elpd_loo_se: float = math.nan
    elpd_loo_mcse: float = math.nan
    elpd_loo_rows: int = 0
    elpd_loo_bad_k: int = 0
    elpd_loo_moved: int = 0
    elpd_logo: float = math.nan
    elpd_logo_se: float = math.nan
    dispersion: Dispersion | None = None
    remedy: Remedy | None = None
    mean_bound: float = math.nan
    earlier_error: float = 0.0

    @property
    def _idata(self) -> Any:
        """The corrected draws as they were made, without ArviZ."""
        return vars(self)["idata"]

    def _with(self, **changes: Any) -> Self:
        """Return it with other figures; its draws stay as they were made."""
        return replace(self, **{"idata": self._idata, **changes})

    @property
    def trusted(self) -> bool:
        """Whether the corrected draws and figures can be used."""
        return self.level != Level.NOT_CERTIFIED

    @property
    def headline(self) -> str:
        """The verdict for everybody, with which certificates, fits and pages begin."""
        if self.trusted:
            return _TRUSTED[self.level]
        unchecked = not self.n_passes and self.remedy is None
        return f"NOT CERTIFIED: {'not checked' if unchecked else 'do not use'}"

    @property
    def checks(self) -> list[Check]:
        """The errors of means and sds due to the coreset, Monte Carlo error, and the chance of a large error.

        Errors are the largest over coefficients, sds and correlations of effects, and effects; empty where no pass was
        made.
        """
        if not self.trusted or not self.n_passes:
            return []
        table, of_groups = self.coordinates, self.effects
        mean = _largest(table["mean_error_sd"], of_groups["mean_error_sd"])
        sd = 100.0 * _largest(table["sd_error"], np.expm1(of_groups["log_sd_error"].to_numpy(dtype=float)))
        corrected = self.level is Level.CORRECTED
        when, left = ("before the correction", " left") if corrected else ("due to the coreset, at most", "")
        limits = ("", "") if corrected else (f"{NEGLIGIBLE_ERROR:.2f} sd", f"{100.0 * NEGLIGIBLE_ERROR:.0f} %")
        chance = f"1 in {1.0 / MAX_FAILURE_PROBABILITY:,.0f}"
        earlier = Check(
            "error of a mean due to rows before the update", _at_most(self.earlier_error, "sd", 0.001), limits[0]
        )
        return [
            Check(f"error of a mean {when}", _at_most(mean, "sd", 0.001), limits[0]),
            Check(f"error of an sd {when}", _at_most(sd, "%", 0.1), limits[1]),
            *([earlier] if self.earlier_error else []),
            Check("Monte Carlo error of a mean", _at_most(_largest(table["mean_mcse_sd"]), "sd", 0.001)),
            Check(f"chance that any error{left} is above {MAX_ERROR:g} sd", f"< {chance}", chance),
        ]

    @property
    def _elpd_text(self) -> str:
        """What to know of `elpd_loo`: its numerical error, or why there is none; empty where it was not sought."""
        if not self.elpd_loo_rows:
            return ""
        rows = f"k-hat above {MAX_K} in {self.elpd_loo_bad_k:,} of {self.elpd_loo_rows:,} rows"
        if math.isnan(self.elpd_loo):
            many = self.elpd_loo_bad_k > MAX_BAD_K_SHARE * self.elpd_loo_rows
            why = "too many for a figure" if many else "but the draws are off: its numerical error exceeds its own"
            return f"{rows}, {why}; more draws, or a tighter prior, may help"
        moved = f", {self.elpd_loo_moved} integrated by moment matching" * (self.elpd_loo_moved > 0)
        return f"numerical error {number(self.elpd_loo_mcse, 2)}; {rows}{moved}"


@dataclass(frozen=True, eq=False, repr=False)
class ComparisonData:
    """Candidates compared with a reference; `compare_posteriors` makes it.

    Parameters
    ----------
    metrics : data frame
        A row for each candidate and "noise floor". Each column is followed by its Monte Carlo standard error
        `<name>_mcse`. `mmd_whitened` and `mmd` are those of `mmd`, whitened by the reference, and in the coordinates'
        units. The largest absolute errors over coordinates are `mean_error_sd` (in reference sds), `sd_error`
        (relative), `correlation_error` and `tail_error_sd` (2.5% and 97.5% quantiles, in reference sds). With test
        rows there is `nll` (nats per row). The noise floor is what two independent runs as long as the reference
        differ by (`metrics.noise_floor` says how); its `nll` is the reference's own.
    coordinates : data frame
        A row for each candidate and feature; its errors are signed.
    verdicts : dict
        Name of a candidate to its `Verdict`; the module `verdict` documents the limits.
    health : dict
        Name of a candidate, or "reference", to the `Health` of its chains.
    candidates, reference : dict of Posterior, Posterior
        The draws compared, coordinates in the reference's order.
    max_draws : int
        Draws used for the MMD at most.
    fit : ModelCheck, optional
        Whether the model fits the test rows, by the reference, where there are any.
    """

    metrics: pd.DataFrame
    coordinates: pd.DataFrame
    verdicts: dict[str, Verdict]
    health: dict[str, Health]
    candidates: dict[str, Posterior]
    reference: Posterior
    max_draws: int
    fit: ModelCheck | None = None
