"""The end of a route for draws that `fit` did not make: certified by all rows, they answer what a fit answers."""

import time
from collections.abc import Mapping
from typing import Any

from bayescore.data.coreset import Coreset
from bayescore.data.formulas.design import formula_of
from bayescore.fitting.given import Given
from bayescore.fitting.route import MAX_DRAWS, Route
from bayescore.fitting.scaling import raw_prior
from bayescore.fitting.story import Step
from bayescore.models.default_priors import is_default
from bayescore.models.priors import prior_from_dict
from bayescore.samplers.inference_data import of_own_model, read_posterior
from bayescore.validation import DataError

ROLES = ("label", "weights", "offset", "trials", "exposure", "groups", "missing")


def route_of_draws(
    idata: Any, core: Coreset, given_rows: tuple[Any, Any], roles: Mapping[str, Any], *, model: Any, progressbar: bool
) -> Route:
    """Return the route whose last step is the certificate of draws; arguments as in `Fit.of_draws`."""
    data, y = given_rows
    if not isinstance(core, Coreset):
        raise TypeError(f"core is a {type(core).__name__}; give the coreset that the draws are of")
    if unknown := sorted(set(roles) - set(ROLES)):
        raise TypeError(f"{unknown[0]}={roles[unknown[0]]!r} is no role of a column; they are {', '.join(ROLES)}")
    if data is None and not core.lossless:
        raise TypeError(
            f"data is missing: the coreset, of method {core.method!r}, misses a part of its rows; give them"
        )
    idata = idata if model is None else of_own_model(idata, core)
    story, prior = read_posterior(idata, "idata").story, None
    if story:
        own = prior_from_dict(story["prior"])
        prior = None if is_default(own, core) else raw_prior(own, core.design)
    elif model is None:
        raise DataError(
            "idata does not tell its prior; give what bayescore.sample returned for a coreset, or model=, the "
            "PyMC model that the draws are of"
        )
    rows, labels = (core, None) if data is None else (data, y)
    formula = None if data is None else formula_of(core.design)
    intercept = core.design.constant is not None
    positive = None if core.counts else core.classes[1]
    given = Given(rows, labels, formula, intercept, positive, dict(roles), progressbar)
    begin = time.perf_counter()
    found = given.certify(idata, core, MAX_DRAWS, model)
    taken, why = time.perf_counter() - begin, f"{found.level}: {found.text}"
    route = Route(given, core.family, prior, 0, 600.0)
    route.core, route.drawn, route.certificate = core, idata, found
    route.story = [Step("certify", core.n_total, found.n_passes, taken, why)]
    return route
