"""What a certificate finds and says: errors of the draws as they are and of corrected ones, by the same rules.

Moved draws are delivered as they are where the weights of some of them change no figure by more than noise (`settled`).
Else all draws are weighed, in one more pass, and resampled; so they are too where k-hat of few draws, whose own error
is large, is all that speaks against the weights. `certificate` has the order of the verdicts.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from bayescore.coresets.separation.complete import warn_if_completely_separated
from bayescore.data.coreset import Coreset
from bayescore.data.opened import Opened
from bayescore.diagnostics.coefficients import table
from bayescore.diagnostics.corrected import systematic
from bayescore.diagnostics.correction import Correction, Weighted
from bayescore.diagnostics.family import Family, close, risk, settled, worst
from bayescore.diagnostics.figures import Run, families, target
from bayescore.diagnostics.origin import Origin
from bayescore.diagnostics.results import Level
from bayescore.diagnostics.tails import tail_k, without_moments
from bayescore.diagnostics.wording import number
from bayescore.limits import MAX_LOG_RATIO_SD, MAX_TAIL_K, MIN_ESS_SHARE, RISK
from bayescore.models.prior_ratio import ClosedForm, OfModel
from bayescore.samplers.inference_data import Posterior
from bayescore.types import IntArray, Likelihood

_FOREIGN = (
    "The draws are not as bayescore.sample made them: they are those of the coreset's posterior under a prior that "
    "matters little, and are judged as that."
)
# more draws by these factors are what the text may ask for: beyond, they are no remedy
_TIMES = (1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)


@dataclass(frozen=True, eq=False)
class Found:
    """Weights of some draws and, where needed, of all; errors of the draws as they are and of corrected ones."""

    passes: Correction
    first: Weighted
    whole: Weighted
    kept: IntArray | None
    raw: list[Family]
    left: list[Family]
    coordinates: pd.DataFrame


def find(
    posterior: Posterior, core: Coreset, opened: Opened, link: Likelihood, origin: Origin, max_draws: int
) -> Found:
    """Return what the passes over the full data tell of a posterior."""
    movable = origin.prior if not isinstance(origin.prior, OfModel) or origin.prior.moves else None
    passes = Correction(core, opened, link, posterior.flat, movable)
    chosen, every = posterior.positions(max_draws), np.arange(len(posterior.flat))
    first = passes.best(chosen)
    separated = warn_if_completely_separated(opened, core)
    k = tail_k(posterior.flat)
    prior = origin.prior.density if isinstance(origin.prior, ClosedForm) else None
    heavy = without_moments(k, len(posterior.flat), prior, separated=separated)
    own = Run(posterior.draws)
    moved = own if first.transport is None else Run(first.moved(posterior.draws))
    whole, kept, full = first, None, target(moved, chosen, first.weights)
    left = families(moved, posterior.features, heavy, full)
    enough = settled(left) and risk(left, shrink=0.0) <= RISK
    if (first.unsure or (first.good and not enough)) and len(chosen) < len(every):
        whole, chosen = passes.weigh(every, first.transport), every
    if not enough and whole.good:
        kept, full = systematic(whole.weights), target(moved, chosen, whole.weights)
        corrected = Run(moved.flat[kept].reshape(moved.draws.shape))
        left = families(corrected, posterior.features, heavy, full, resampled=True)
    raw = left if moved is own and kept is None else families(own, posterior.features, heavy, full)
    return Found(passes, first, whole, kept, raw, left, table(posterior, k, heavy, raw, full))


def verdict(found: Found, origin: Origin) -> tuple[Level, str]:
    """Return the word and the reason."""
    level, text = _word(found, origin)
    return level, text + _on_moments(found.coordinates["tail_k"].dropna())


def _word(found: Found, origin: Origin) -> tuple[Level, str]:
    whole, raw, left = found.whole, found.raw, found.left
    k = f"Pareto k-hat is {number(whole.pareto_k, 2)}"
    remedy = "Use method='calibrated', or a larger size if it was."
    if not whole.good:
        size = f"the effective sample size {whole.ess:.0f} of {len(whole.weights)}"
        if whole.ess >= MIN_ESS_SHARE * len(whole.weights):
            return Level.NOT_CERTIFIED, (
                f"{k} (limit {number(whole.max_k, 2)}): the weights' tail is too long to trust a correction, though "
                f"{size} is enough. More draws may tell; else, {remedy[0].lower()}{remedy[1:]}"
            )
        return Level.NOT_CERTIFIED, (
            f"{k} (limit {number(whole.max_k, 2)}), {size} (limit {MIN_ESS_SHARE:.0%}): the coreset's posterior does "
            f"not cover the full data's, and no correction can be trusted. {remedy}"
        )
    scope = "" if origin.prior is not None or origin.told else f" {_FOREIGN}"
    if close(raw) and risk(raw) <= RISK and whole.spread < MAX_LOG_RATIO_SD:
        return Level.CERTIFIED, f"{k} and at worst {worst(raw)}.{scope}"
    if risk(left) <= RISK:
        return Level.CORRECTED, (
            f"{k}, but of the draws as they are {worst(raw)}. Use the corrected draws (Certificate.idata), of which at "
            f"worst {worst(left)}, or a larger size.{scope}"
        )
    times = next((factor for factor in _TIMES if risk(left, shrink=factor**-0.5) <= RISK), None)
    if times is None:
        return Level.NOT_CERTIFIED, f"{k}, but even of the corrected draws {worst(left)}. {remedy}"
    return Level.NOT_CERTIFIED, (
        f"Too few draws to tell: {worst(left)} even of the corrected ones, Monte Carlo error included. About {times:g} "
        "times as many would do."
    )


def _on_moments(tail_k: pd.Series) -> str:
    """Return a sentence on coordinates that have no moments; empty if all have."""
    if tail_k.empty:
        return ""
    worst_k = float(tail_k.max())
    names = ", ".join(repr(name) for name in tail_k.index[:5]) + (" and others" if len(tail_k) > 5 else "")
    return (
        f" Of {names} the draws' tail has a Pareto k-hat of {number(worst_k, 2)}: above {MAX_TAIL_K}, its own error "
        "allowed for, an sd does not exist, above 1 nor does a mean, whatever figure draws give. Median and quartiles "
        "were judged instead."
    )
