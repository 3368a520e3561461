"""What follows from draws: probabilities of new rows, of known and new groups, averages by level, replicated labels."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from tests.golden import coresets, fits, rows, view
from tests.golden.case import Fields, case
from tests.hand_made import fit_of

NEW = rows.FRAME.iloc[::250]


def of_rows(name: str, columns: list[str], *made_of: Any, frame: pd.DataFrame = NEW) -> Fields:
    """Return probabilities of new rows with their intervals."""
    made = fit_of(fits.sampled(name, *made_of), getattr(fits, name)(*made_of))
    return view.of_table(made.predict(frame[columns], prob=0.9))


for _family in coresets.LINKS:
    case(f"rows, {_family}")(partial(of_rows, "flat", rows.FEATURES, _family))
case("rows, offsets, standardized")(partial(of_rows, "offsets", ["x0", "x1", "o"]))
case("rows, formula")(partial(of_rows, "formula", ["x0", "device", "age"]))


def of_groups(family: str) -> Fields:
    """Return probabilities of rows in known groups and in a new one."""
    people = fits.grouped_frame().iloc[::250].drop(columns="y")
    people.iloc[-3:, people.columns.get_loc("county")] = "never seen"
    return view.of_table(fit_of(fits.sampled("grouped", family), fits.grouped(family)).predict(people, prob=0.9))


def of_terms(terms: str) -> Fields:
    """Return probabilities of rows in known levels, and of new levels of the first factor and of all."""
    frame = coresets.TERMS[terms]()
    people = frame.iloc[::50].drop(columns="y").reset_index(drop=True)
    people.loc[2:3, "a"] = 99
    people.loc[3, "b"] = 99
    return view.of_table(fit_of(fits.of_terms(terms), fits.terms(terms)).predict(people, prob=0.9))


def of_population(terms: str | None) -> Fields:
    """Return shares of a population in parts."""
    if terms is None:
        idata, core, cells, by = fits.sampled("grouped"), fits.grouped(), fits.grouped_frame().iloc[:60], "county"
    else:
        idata, core, cells, by = fits.of_terms(terms), fits.terms(terms), coresets.TERMS[terms]().iloc[::10], "a"
    cells = cells.assign(n=1 + np.arange(len(cells)) % 7)
    return view.of_table(fit_of(idata, core).poststratify(cells, by=by, weights="n", prob=0.94))


for _family in coresets.LINKS:
    case(f"known and new groups, {_family}")(partial(of_groups, _family))
for _terms in ("(1 | a) + (1 | b)", "(1 + x | a)"):
    case(f"known and new groups, {_terms}")(partial(of_terms, _terms))
    case(f"poststratify, {_terms}")(partial(of_population, _terms))
case("poststratify, (1 | county)")(partial(of_population, None))


@case("odds ratios")
def of_odds() -> Fields:
    table = fit_of(fits.sampled("formula"), fits.formula()).summary(scale="odds", prob=0.94)
    return view.of_table(table.drop(columns="r_hat"))  # of ranks, which last bits of exp exchange


def of_averages(**which: str) -> Fields:
    """Return average predictions by the levels of a factor."""
    asked = {"data": rows.FRAME.iloc[:400], "max_draws": 200, "prob": 0.94, **which}
    return view.of_table(fit_of(fits.sampled("formula"), fits.formula()).average_predictions(**asked))


case("average_predictions, by")(partial(of_averages, by="device"))
case("average_predictions, variables")(partial(of_averages, variables="device"))


@case("prior_summary")
def of_prior() -> Fields:
    found: pd.DataFrame = fit_of(fits.sampled("offsets"), fits.offsets()).prior_summary()
    return view.of_table(found)


def _test_rows() -> Any:
    return bc.all_rows(fits.FLAT.iloc[:12], label="y", design=fits.flat().design, **fits.QUIET)


@case("inference_data")
def of_replicates() -> Fields:
    found = fit_of(fits.sampled("flat"), fits.flat()).inference_data(_test_rows(), max_draws=40, random_state=1)
    fields = {str(name): own.values for name, own in found["posterior"].data_vars.items()}
    return fields | {name: found[name]["y"].values for name in ("posterior_predictive", "log_likelihood")}


@case("CoresetLogisticRegression")
def of_classifier() -> Fields:
    model = bc.CoresetLogisticRegression(random_state=1).fit(rows.X, rows.Y)
    some = rows.X[::250]
    found = {"coef": model.coef_, "intercept": model.intercept_, "p": model.predict_proba(some)}
    return {**found, "classes": [*map(str, model.classes_), *map(str, model.predict(some))]}


def of_mode(kind: str, name: str) -> Fields:
    """Return a mode and its covariance's factor."""
    mode = getattr(bc, kind)(getattr(fits, name)())
    return {"beta": mode.beta, "covariance": mode.factor @ mode.factor.T}


case("find_map")(partial(of_mode, "find_map", "offsets"))
case("find_mle")(partial(of_mode, "find_mle", "flat"))
