"""What a fit prints above its table."""

import numpy as np

from bayescore.data.design import terms_text
from bayescore.diagnostics.formatting import number
from bayescore.diagnostics.results import first_line
from bayescore.fitting.parts import FitParts
from bayescore.limits import MAX_PRIOR_SHARE, MIN_MEAN_WEIGHT
from bayescore.models.group_priors import DEFAULT_GROUP_PRIOR
from bayescore.models.priors import prior_from_dict
from bayescore.samplers.inference_data import read_posterior

_NAMED = 5  # coefficients in a line
_UPDATES = 3  # whose steps are too many to print


def printed_lines(fit: FitParts) -> list[str]:
    """Return the verdict, the model, what was done, and what else a reader should know, a line each."""
    found = fit.certificate
    lines = [first_line(found, corrected=True), *([] if found.trusted else [f"  {found.text}"])]
    lines.append(f"  {_model(fit)}")
    lines += [f"  {said}" for said in _told(fit)]
    if (dispersion := fit.certificate.dispersion) is not None:
        lines.append(f"  {dispersion.finding if fit.spread else dispersion.text}")
    if fit.spread:
        lines.append(f"  spread: {fit.spread}, not the model's own")
    lines += [f"  {said}" for said in (_weights(fit), _prior(fit), _led_by_prior(fit)) if said]
    return lines if fit.group_prior in (None, DEFAULT_GROUP_PRIOR) else [*lines, f"  group prior: {fit.group_prior}"]


def _told(fit: FitParts) -> list[str]:
    """Return the story's steps; of several updates those of the last, and of others their number."""
    steps = [str(step) for step in fit.story]
    at = [place for place, step in enumerate(fit.story) if step.what == "update"]
    if len(at) < _UPDATES:
        return steps
    return [*steps[: at[0]], f"{len(at) - 1} earlier updates (fit.story has them)", *steps[at[-1] :]]


def _model(fit: FitParts) -> str:
    """Return the family, the formula, and which label the probability is of, or what rows of counts are."""
    core = fit.coreset
    model = fit.formula or f"{core.label} ~ {core.n_features} columns"
    terms = f" + {terms_text(core.groups)}" if core.groups and fit.formula is None else ""
    note = ""
    if core.counts:
        note = "; the events of a count and its exposure are a row each"
    elif core.response == "labels" and tuple(core.classes) not in ((False, True), (0, 1), (-1, 1)):
        note = f"; the event is {core.label} = {core.classes[1]!r}"
    return f"{core.family.replace('_', ' ')} regression of {model}{terms}{note}"


def _weights(fit: FitParts) -> str:
    """Return what the weights of rows add up to, which is how many rows they count as."""
    core = fit.coreset
    if not core.design.weighted or core.counts or core.numbers:
        return ""
    said = f"weights: {core.n_total:,} rows count as {core.weight_total:,.6g}"
    if core.weight_total < MIN_MEAN_WEIGHT * core.n_total:
        return f"{said}, which leaves much to the prior: divide the weights by their mean"
    return said if fit.spread else f"{said}; weights of a survey need cluster= too"


def _prior(fit: FitParts) -> str:
    core = fit.coreset
    unit = " sd(y)" if core.numbers else ""
    default = f"default, Normal(0, 2.5{unit} / sd) of each column"
    if core.design.constant is not None:
        wide = "" if core.design.center is not None else " sqrt(1 + sum (mean / sd)^2)"
        where = "where they are 0" if wide else "at their means"
        default += f", Normal({'mean(y)' if unit else '0'}, 2.5{unit}{wide}) of the intercept {where}"
    if "posterior_of" not in fit.drawn.posterior.attrs:
        default = "that of a model of your own"
    return f"prior: {default if fit.prior is None else fit.prior}"


def _led_by_prior(fit: FitParts) -> str:
    """Return which coefficients the data say little of: their posterior sds are a large part of the prior's."""
    posterior, story = fit.posterior(), read_posterior(fit.drawn, "fit.drawn").story
    if not story:
        return ""
    prior, sds, D = prior_from_dict(story["prior"]), posterior.flat.std(axis=0), len(posterior.features)
    scales = [getattr(prior.of_coefficient(d, name, D), "sigma", np.inf) for d, name in enumerate(posterior.features)]
    shares = sds / np.asarray(scales, dtype=np.float64)
    led = [d for d in np.argsort(-shares, kind="stable") if shares[d] > MAX_PRIOR_SHARE]
    if not led:
        return ""
    names = ", ".join(repr(posterior.features[d]) for d in led[:_NAMED]) + " and others" * (len(led) > _NAMED)
    return (
        f"the data say little of {names}: posterior sds are up to {number(100.0 * float(shares.max()), 2)}% of the "
        "prior's. fit.prior_sensitivity() shows what the prior does"
    )
