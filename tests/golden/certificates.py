"""What is found of posteriors: certificates of every kind, corrected draws, elpds, comparisons and evidence."""

from dataclasses import asdict
from functools import cache, partial
from typing import Any

import numpy as np

import bayescore as bc
from bayescore.diagnostics.loo import loo
from tests.golden import coresets, fits, later, rows, view
from tests.golden.case import CHAINS, Fields, case


@cache
def flat(size: int = 80, method: str = "calibrated", family: str = "logistic") -> Any:
    """Return the certificate of a coreset without groups."""
    made_of = (family, size, method)
    return bc.certify(fits.sampled("flat", *made_of), fits.flat(*made_of), fits.FLAT, label="y", **fits.QUIET)


@cache
def grouped(family: str = "logistic") -> Any:
    """Return the certificate of (1 | county)."""
    idata, core = fits.sampled("grouped", family), fits.grouped(family)
    return bc.certify(idata, core, fits.grouped_frame(), label="y", max_draws=2000, **fits.QUIET)


def of(make: Any, *made_of: Any) -> Fields:
    """Return what is seen of a certificate."""
    return view.of_certificate(make(*made_of))


case("calibrated", of_stack=True)(partial(of, flat))
case("calibrated, probit", of_stack=True)(partial(of, flat, 80, "calibrated", "probit"))
case("calibrated, cloglog", of_stack=True)(partial(of, flat, 80, "calibrated", "cloglog"))
case("uniform", of_stack=True)(partial(of, flat, 60, "uniform"))
case("condensed", of_stack=True)(partial(of, flat, 30, "condensed"))
for _family in coresets.LINKS:
    case(f"(1 | county), {_family}", of_stack=True)(partial(of, grouped, _family))


@case("weights and offsets, standardized", of_stack=True)
def of_offsets() -> Fields:
    idata, core = fits.sampled("offsets"), fits.offsets()
    return view.of_certificate(bc.certify(idata, core, fits.WITH_OFFSET, label="y", weights="w", **fits.QUIET))


@case("too few draws", of_stack=True)
def of_few() -> Fields:
    idata = fits.sampled("flat", short=True)
    return view.of_certificate(bc.certify(idata, fits.flat(), fits.FLAT, label="y", **fits.QUIET))


@cache
def several(terms: str) -> Any:
    """Return the certificate of several group terms, or of slopes that vary."""
    told = {"label": "y", "max_draws": 1000, **fits.QUIET}
    return bc.certify(fits.of_terms(terms), fits.terms(terms), coresets.TERMS[terms](), **told)


for _terms in ("(1 | a) + (1 | b)", "(1 + x | a)", "(1 + x | a) + (1 | b)"):
    case(_terms, of_stack=True)(partial(of, several, _terms))


# --- other models of the same rows ------------------------------------------------------------------------------------


MODELS = {"factor": (fits.FORMULA,), "probit": (fits.FORMULA, "probit"), "numbers": ("y ~ x0 + x1 + x2",)}


@case("loo_compare", of_stack=True)
def of_models() -> Fields:
    models = {name: (fits.sampled("formula", *own), fits.formula(*own)) for name, own in MODELS.items()}
    return view.of_table(bc.loo_compare(models, rows.FRAME, label="y", **fits.QUIET))


@case("loo", of_stack=True)
def of_rows_left_out() -> Fields:
    some = rows.FRAME.iloc[:300]
    core = bc.all_rows(some, formula=fits.FORMULA, **fits.QUIET)
    idata = bc.sample(core, sampler="mala", **{**fits.LONG, "draws": 100})
    return view.of_elpd(loo(idata, core, some, label="y", max_draws=200, **fits.QUIET))


@case("log_evidence", of_stack=True)
def of_evidence() -> Fields:
    found = bc.log_evidence(fits.flat(), fits.FLAT, label="y", draws=500, random_seed=1, **fits.QUIET)
    return {name: np.asarray(value) for name, value in asdict(found).items()}


@cache
def comparison() -> Any:
    """Return the comparison of coresets' posteriors with that of all rows."""
    told = {"label": "y", "intercept": True, **fits.QUIET}
    reference = view.undated(bc.sample(bc.all_rows(fits.FLAT, **told), sampler="mala", **fits.LONG))
    test = bc.all_rows(fits.FLAT.iloc[:200], label="y", design=fits.flat().design, **fits.QUIET)
    candidates = {"calibrated": fits.sampled("flat", "logistic", 80, "calibrated")}
    candidates["uniform"] = fits.sampled("flat", "logistic", 60, "uniform")
    return bc.compare_posteriors(candidates, reference, test=test, max_draws=500)


def of_comparison(make: Any, *made_of: Any) -> Fields:
    """Return what is seen of a comparison."""
    found = make(*made_of)
    words = [f"{name}: {own.level}: {own.text}" for name, own in found.verdicts.items()]
    health = [f"{name}: {own.text}" for name, own in found.health.items()]
    tables = {**view.of_table(found.metrics, "metrics"), **view.of_table(found.coordinates, "coordinates")}
    return {**tables, "words": words + health}


case("compare", of_stack=True)(partial(of_comparison, comparison))


@cache
def comparison_of_fits(name: str) -> Any:
    """Return the comparison of a fit's draws with those under another prior, and after an update."""
    candidates = {"prior": later.with_prior(name, "by name").idata, "updated": later.updated(name).idata}
    return bc.compare_posteriors(candidates, later.first(name).idata, max_draws=500)


for _name in ("poisson", "(1 | school)", "normal"):
    case(f"compare, {_name}", of_stack=True, tolerance=CHAINS)(partial(of_comparison, comparison_of_fits, _name))
