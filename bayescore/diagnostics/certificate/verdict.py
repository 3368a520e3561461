"""The verdict of a certificate: one rule and one style of text for every kind of model.

Moved draws are delivered as they are where the weights of some of them change no figure by more than noise
(`corrections_negligible`). Else all draws are weighed, in one more pass, and resampled; so they are too where the only
objection is k-hat of few draws, whose own error is large. Where weighing all takes too much memory (`Weighed.again`),
those weighed first are resampled. `judge` collects what is judged, and `_level_and_text` decides; `certify` has the
order of the verdicts.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bayescore.diagnostics.certificate.estimates import DrawFigures, combinations, error_families, full_figures, table
from bayescore.diagnostics.certificate.weigh import Weighed, Weigher, resample_systematically
from bayescore.diagnostics.results import Level, Need, Remedy, slow_chains
from bayescore.limits import (
    MAX_DRAWS,
    MAX_FAILURE_PROBABILITY,
    MAX_LOG_RATIO_SD,
    MAX_TAIL_K,
    MIN_ESS_SHARE,
    NEGLIGIBLE_ERROR,
)
from bayescore.numerics.moments import ErrorFamily, corrections_negligible, describe_worst, errors_negligible, risk
from bayescore.samplers.summaries import DataUnits
from bayescore.text import listed, number
from bayescore.types import FloatArray, IntArray

# more draws by these factors are what the text may ask for: beyond, they are no remedy
_FACTORS = (1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_LEAST = 0.001  # smaller errors have no digits worth reading
_ALL_ROWS_TEXT = "The draws are of all rows: nothing is to be weighed."
_EXACT_TEXT = (
    "The coreset is exact: with normal noise the likelihood of an sd is a quadratic, which sums over all rows say "
    "without loss, so that nothing is to be weighed."
)


@dataclass(frozen=True, eq=False)
class Judgement:
    """Weights of some draws and, where needed, of all; errors of the draws as they are and of corrected ones."""

    first: Weighed
    whole: Weighed  # those that the verdict is on
    kept: IntArray | None  # places among these that resampling keeps; None where all stay
    raw: list[ErrorFamily]
    left: list[ErrorFamily]
    coordinates: pd.DataFrame
    effects: pd.DataFrame


def judge(weigher: Weigher, max_draws: int, weigh: Callable[[IntArray], Weighed]) -> Judgement:
    """Return what the passes over the full data say about a posterior; `weigh` weighs draws at given positions."""
    posterior = weigher.posterior
    whole = first = weigh(posterior.positions(max_draws))
    k, without = weigher.tails()
    logs = np.array([name.startswith("log sigma_") for name in posterior.features])
    heavy = np.where(without, np.where(logs, 2, 1), 0)
    drawn = DrawFigures(posterior.draws)
    moved = drawn if first.transport is None else DrawFigures(first.moved(posterior.draws))
    kept, full = None, full_figures(moved, first.at, first.weights.weights)
    left, enough = [], False
    if first.exact:
        left, enough = error_families(drawn, posterior.features, heavy, full), True
    elif first.weigh_all is not None:
        left = error_families(moved, posterior.features, heavy, full)
        enough = corrections_negligible(left) and risk(left, shrink=0.0) <= MAX_FAILURE_PROBABILITY
        if (first.weights.unsure or (first.weights.good and not enough)) and len(first.at) < len(drawn.flat):
            whole = first.weigh_all()
    if not first.exact and (first.weigh_all is None or (not enough and whole.weights.good)):
        weights = whole.weights.weights
        kept, full = resample_systematically(weights), full_figures(moved, whole.at, weights)
        corrected = moved.flat[whole.at[kept]].reshape(len(drawn.draws), -1, drawn.draws.shape[2])
        left = error_families(DrawFigures(corrected), posterior.features, heavy, full, resampled=True)
    raw = left if moved is drawn and kept is None else error_families(drawn, posterior.features, heavy, full)
    if first.transport is not None and not heavy.any():  # or the sd of most combinations does not exist
        raw = [*raw, *combinations(drawn, first.transport)]
    effects = whole.effects(float(full.slow.max()))
    coordinates = table(posterior, k, heavy, raw, full, units=DataUnits(weigher.core.design))
    return Judgement(first, whole, kept, raw, left, coordinates, effects)


def verdict(judgement: Judgement, weigher: Weigher) -> tuple[Level, str, Remedy | None]:
    """Return the word, the reason, and what refused draws need."""
    level, text, asked = _level_and_text(judgement, weigher)
    scope = f" {weigher.scope}" if weigher.scope and level is not Level.NOT_CERTIFIED else ""
    note = f"{judgement.first.note} " if judgement.first.note else ""
    return (
        level,
        note + text + scope + _on_moments(judgement.coordinates["tail_k"].dropna()) + _on_sds(judgement.coordinates),
        asked,
    )


def _level_and_text(judgement: Judgement, weigher: Weigher) -> tuple[Level, str, Remedy | None]:
    weights, raw, left, remedy = judgement.whole.weights, judgement.raw, judgement.left, weigher.remedy
    draws = weigher.posterior.draws
    k = f"Pareto k-hat is {number(weights.pareto_k, 2)}"
    if not weights.good or judgement.whole.n_missed:
        size = f"the effective sample size {weights.ess:.0f} of {len(weights.weights)}"
        if not judgement.whole.n_missed and weights.ess >= MIN_ESS_SHARE * len(weights.weights):
            more = min(4 * draws.shape[1], max(MAX_DRAWS, draws.shape[1]))
            tell = f"More may tell: sample with draws={more}. Else: " * (draws.shape[1] < more <= MAX_DRAWS)
            text = (
                f"{k} (limit {number(weights.max_k, 2)}): the weights' tail is too long to trust, though "
                f"{size} is enough. {tell}{remedy}"
            )
            return Level.NOT_CERTIFIED, text, Remedy(Need.DRAWS, more)
        missed = f", and {judgement.whole.n_missed:,} group effects lie where the coreset does not look"
        text = (
            f"{k} (limit {number(weights.max_k, 2)}), {size} (limit {MIN_ESS_SHARE:.0%})"
            f"{missed * bool(judgement.whole.n_missed)}: the coreset's posterior does not cover the full data's, and "
            f"no correction can be trusted. {remedy}"
        )
        return Level.NOT_CERTIFIED, text, Remedy(Need.ROWS)
    if judgement.whole.exact:
        return _level_of_all_rows(left, draws, _EXACT_TEXT if weigher.posterior.family.quadratic else _ALL_ROWS_TEXT)
    effects_stay, of_effects = _effects_clause(judgement.effects)
    small = errors_negligible(raw) and risk(raw) <= MAX_FAILURE_PROBABILITY
    if small and weights.spread < MAX_LOG_RATIO_SD and effects_stay:
        return Level.CERTIFIED, f"{k} and at worst {describe_worst(raw)}{of_effects}.", None
    if risk(left) <= MAX_FAILURE_PROBABILITY:
        text = (
            f"{k}, but of the draws as they are {describe_worst(raw)}{of_effects}. Use the corrected draws "
            f"(Certificate.idata): at worst {describe_worst(left)}{', or a larger size' * judgement.effects.empty}."
        )
        return Level.CORRECTED, text, None
    times = _draw_factor(left)
    if times is None:
        text = f"{k}, but even of the corrected draws {describe_worst(left)}. {remedy}"
        return Level.NOT_CERTIFIED, text, Remedy(Need.ROWS)
    more, asked = _arguments_to_raise(times, len(weights.weights), draws)
    text = (
        f"Too few draws to tell: {describe_worst(left)} even of the corrected ones, Monte Carlo error included. About "
        f"{times:g} times as many would do: {more}."
    )
    return Level.NOT_CERTIFIED, text, asked


def _level_of_all_rows(errors: list[ErrorFamily], draws: FloatArray, said: str) -> tuple[Level, str, Remedy | None]:
    """Return the verdict on draws that were made from all rows, by their own figures alone."""
    error = f"{describe_worst(errors)}, all of it Monte Carlo error"
    if risk(errors) <= MAX_FAILURE_PROBABILITY:
        return Level.CERTIFIED, f"{said} At worst {error}.", None
    times = _draw_factor(errors)
    if times is None:
        text = f"{said} But {describe_worst(errors)}, by their Monte Carlo error; sample anew, with a longer warm-up."
        return Level.NOT_CERTIFIED, text, Remedy(Need.CHAINS, 2 * draws.shape[1])
    more, asked = _arguments_to_raise(times, draws.shape[0] * draws.shape[1], draws)
    text = f"{said} They are too few to tell: {error}. About {times:g} times as many would do: {more}."
    return Level.NOT_CERTIFIED, text, asked


def _draw_factor(families: list[ErrorFamily]) -> float | None:
    """Return by what factor more draws would do; None where more draws are no remedy."""
    return next((factor for factor in _FACTORS if risk(families, shrink=factor**-0.5) <= MAX_FAILURE_PROBABILITY), None)


def _arguments_to_raise(times: float, n: int, draws: FloatArray) -> tuple[str, Remedy]:
    """Return which arguments to raise, and to what, where `times` as many draws as the n weighed are needed."""
    chains, each, _ = draws.shape
    needed = math.ceil(times * n / 100.0) * 100
    more = math.ceil(needed / chains / 100.0) * 100 if needed > chains * each else 0
    weighed = needed if n < chains * each else 0
    said = [f"sample with draws={more}" if more <= MAX_DRAWS else slow_chains()] * (more > 0) + [
        f"certify with max_draws={weighed}"
    ] * (weighed > 0)
    return " and ".join(said), Remedy(Need.DRAWS, more, max_draws=weighed)


def _effects_clause(effects: pd.DataFrame) -> tuple[bool, str]:
    """Return whether the effects of groups need no correction, and a clause on the worst of them."""
    if effects.empty:
        return True, ""
    # of arrays, not of columns: NaN is the worst, and within no limit
    mean_error = float(np.abs(effects["mean_error_sd"].to_numpy()).max())
    sd_error = np.abs(effects["log_sd_error"].to_numpy())
    sure = float((sd_error + 2.0 * effects["log_sd_error_mcse"].to_numpy()).max())
    return mean_error <= NEGLIGIBLE_ERROR and sure <= NEGLIGIBLE_ERROR, (
        f"; of {len(effects):,} group effects the worst mean is off by {_error_text(mean_error)} sd, the worst sd by "
        f"{_error_text(100.0 * float(np.expm1(sd_error.max())))}%"
    )


def _error_text(error: float) -> str:
    return f"less than {_LEAST}" if error < _LEAST else number(error, 2)


def _on_sds(coordinates: pd.DataFrame) -> str:
    """Return a sentence on coordinates whose sd is that of a long tail; empty if there are none."""
    long = list(coordinates.index[coordinates["mean"].isna() & coordinates["tail_k"].isna()])
    if not long:
        return ""
    text = f" A long tail decides the sd of {listed(long)}: median and quartiles were judged in place of mean and sd."
    if not all(name.startswith("log sigma_") for name in long):
        text += " So few levels leave the sds of effects to their prior."
    return text


def _on_moments(tail_k: pd.Series) -> str:
    """Return a sentence on coordinates that have no moments; empty if all have."""
    if tail_k.empty:
        return ""
    names, worst_k = listed(list(tail_k.index)), float(tail_k.max())
    return (
        f" Of {names} the draws' tail has a Pareto k-hat of {number(worst_k, 2)}: above {MAX_TAIL_K}, its own error "
        "allowed for, an sd does not exist, above 1 nor does a mean, whatever figure draws give. Median and quartiles "
        "were judged instead."
    )
