"""Draws: a short run of each sampler for each likelihood, with offsets, priors by name and groups."""

from functools import partial
from typing import Any

import bayescore as bc
from tests.golden import fits, pupils, view
from tests.golden.case import CHAINS, ROUNDING, Fields, case

SAMPLERS = {
    "auto": ("logistic",),
    "langevin": ("logistic", "probit", "cloglog"),
    "mala": ("logistic", "probit", "cloglog"),
    "gibbs": ("probit",),
    "polya_gamma": ("logistic",),
}
PRIOR = {
    "x0": bc.priors.StudentT(3.0, 0.0, 2.5),
    "device": bc.priors.Laplace(0.0, 0.5),
    "*": bc.priors.Normal(0.1, 2.0),
}


def drawn(name: str, *made_of: Any, **options: Any) -> Fields:
    """Return a short run of a coreset of `fits`."""
    return view.of_draws(fits.sampled(name, *made_of, short=True, **options))


for _sampler, _families in SAMPLERS.items():
    for _family in _families:
        case(f"{_sampler}, {_family}")(partial(drawn, "flat", _family, sampler=_sampler))
case("mala, offsets, standardized")(partial(drawn, "offsets", sampler="mala"))
for _family in ("logistic", "probit", "cloglog"):
    case(f"collapsed, {_family}")(partial(drawn, "grouped", _family, sampler="collapsed"))


# --- counts, numbers, and several group terms -------------------------------------------------------------------------

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "poisson": ("days ~ hours + way", {"family": "poisson", "exposure": "weeks"}),
    "negative_binomial(2.5)": ("days ~ hours + way", {"family": "negative_binomial(2.5)"}),
    "normal": ("score ~ hours + way", {"family": "normal"}),
    "normal(9)": ("score ~ hours + way", {"family": "normal(9)"}),
    "logistic": ("passed ~ hours + way", {}),
}
GROUPED = (
    ("collapsed", "poisson", "(1 | school)"),
    ("joint", "logistic", "(1 + hours | school)"),
    ("joint", "poisson", "(1 + hours | school)"),
    ("auto", "logistic", "(1 | school) + (1 | region)"),
    ("auto", "poisson", "(1 | school)"),
    ("auto", "normal", "(1 + hours | school)"),
)


def of_pupils(sampler: str, family: str, terms: str = "") -> Fields:
    """Return a short run of a coreset of pupils, with group terms if there are any."""
    formula, roles = MODELS[family]
    formula = f"{formula} + {terms}" if terms else formula
    core = bc.build_coreset(pupils.FIRST, formula=formula, random_state=fits.SEED, **roles, **fits.QUIET)
    return view.of_draws(view.undated(bc.sample(core, sampler=sampler, **fits.SHORT)))


for _family in ("poisson", "negative_binomial(2.5)", "normal(9)"):
    for _sampler in ("mala", "langevin"):
        case(f"{_sampler}, {_family}")(partial(of_pupils, _sampler, _family))
case("auto, normal")(partial(of_pupils, "auto", "normal"))
for _sampler, _family, _terms in GROUPED:
    _rounding = (
        ROUNDING if _sampler == "collapsed" else CHAINS
    )  # its steps, adapted in 50 draws, make more of a last bit
    case(f"{_sampler}, {_terms}, {_family}", tolerance=_rounding)(partial(of_pupils, _sampler, _family, _terms))


@case("mala, priors by name")
def of_priors() -> Fields:
    return view.of_draws(bc.sample(fits.formula(), prior=PRIOR, sampler="mala", **fits.SHORT))


NUTS = {
    "offsets, standardized": ("offsets",),
    "probit": ("flat", "probit"),
    "(1 | county)": ("grouped",),
    "(1 | a) + (1 | b)": ("terms", "(1 | a) + (1 | b)"),
    "(1 + x | a)": ("terms", "(1 + x | a)"),
}
FEW = {"(1 + x | a)": {"tune": 20}}  # of many coordinates: rounding grows with every trajectory
for _name, _made_of in NUTS.items():
    case(f"nuts, {_name}", tolerance=CHAINS, of_stack=True)(
        partial(drawn, *_made_of, sampler="nuts", **FEW.get(_name, {}))
    )
