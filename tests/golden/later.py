"""What follows a fit: more rows, another prior, cluster-robust draws, shares of a population, a folder, other draws."""

from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from tests.golden import fits, pupils, view, view_fits
from tests.golden.case import EFFECTS, Case, Fields
from tests.golden.case import case as any_case
from tests.golden.recorded import compared

case = partial(any_case, of_stack=True, tolerance=view_fits.DIFFERENCES)
SEED = 1
FEW = pupils.ALL.assign(hours=pupils.ALL["hours"].round())
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "flat": (pupils.FLAT, {}),
    "weights and offset": (pupils.FLAT, {"weights": "w", "offset": "known"}),
    "few distinct rows": (pupils.FLAT, {}),
    "probit": (pupils.FLAT, {"family": "probit"}),
    "(1 | school)": (pupils.GROUPED, {}),
    "poisson": (pupils.COUNTS, {"family": "poisson", "exposure": "weeks"}),
    "normal": (pupils.NUMBERS, {"family": "normal"}),
}


def parts(name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of a model's first fit, and those that come later."""
    frame = FEW if name == "few distinct rows" else pupils.ALL
    return frame.iloc[: len(pupils.FIRST)], frame.iloc[len(pupils.FIRST) :].reset_index(drop=True)


@cache
def first(name: str) -> Any:
    """Return the fit of the first rows of a model."""
    formula, roles = MODELS[name]
    return bc.fit(formula, parts(name)[0], random_state=SEED, **roles, **fits.QUIET)


# --- update -----------------------------------------------------------------------------------------------------------


@cache
def updated(name: str) -> Any:
    """Return a fit after one update."""
    return first(name).update(parts(name)[1], **fits.QUIET)


def of_update(name: str) -> Fields:
    """Return what is seen of a fit after one update."""
    return view_fits.of_fit(updated(name))


def of_updates(name: str) -> Fields:
    """Return what is seen of a fit after two updates."""
    more = parts(name)[1]
    return view_fits.of_fit(first(name).update(more.iloc[:450], **fits.QUIET).update(more.iloc[450:], **fits.QUIET))


def of_update_by_all(name: str, *, new: bool) -> Fields:
    """Return what is seen of a fit after one update, certified by all rows; of rows that came before if not `new`."""
    old, more = parts(name)
    whole = pd.concat([old, more], ignore_index=True)
    if new:
        return view_fits.of_fit(first(name).update(more, data=whole, **fits.QUIET))
    return view_fits.of_fit(updated(name).update(data=whole, **fits.QUIET))


for _name in MODELS:
    case(f"update, {_name}")(partial(of_update, _name))
for _name in ("flat", "(1 | school)", "normal"):
    case(f"update twice, {_name}")(partial(of_updates, _name))
for _name in ("flat", "(1 | school)", "poisson"):
    case(f"update with all rows, {_name}")(partial(of_update_by_all, _name, new=True))
case("update, all rows afterwards, flat")(partial(of_update_by_all, "flat", new=False))


@case("update, a new group")
def of_new_group() -> Fields:
    more = pupils.MORE.assign(school=pupils.MORE["school"].where(pupils.MORE["room"] % 6 > 0, "new"))
    fit = first("(1 | school)").update(more, **fits.QUIET)
    return {**view_fits.of_fit(fit), **view_fits.matrix(fit.effects("school"), "by school")}


# --- another prior ----------------------------------------------------------------------------------------------------

PRIORS: dict[str, Any] = {
    "by name": {"hours": bc.priors.Normal(0.0, 0.03)},
    "student_t": bc.priors.StudentT(3.0, 0.0, 0.5),
    "by name and for others": {"way[train]": bc.priors.Laplace(0.0, 0.1), "*": bc.priors.Normal(0.1, 1.0)},
}


@cache
def with_prior(name: str, prior: str) -> Any:
    """Return the fit of a model under another prior."""
    return first(name).with_prior(PRIORS[prior])


def of_prior(name: str, prior: str) -> Fields:
    """Return what is seen of a fit under another prior, and of its priors."""
    fit = with_prior(name, prior)
    return {**view_fits.of_fit(fit), **view_fits.matrix(fit.prior_summary(), "priors")}


for _prior in PRIORS:
    case(f"with_prior, flat, {_prior}")(partial(of_prior, "flat", _prior))
for _name in ("(1 | school)", "poisson", "normal"):
    case(f"with_prior, {_name}")(partial(of_prior, _name, "by name"))


# --- cluster-robust draws ---------------------------------------------------------------------------------------------

PEOPLE = pupils.ALL.iloc[::150]


@cache
def robust(name: str, strata: str | None = None) -> Any:
    """Return a fit with a spread that is robust to the dependence of rows of a room."""
    return first(name).cluster_robust("room", strata=strata)


def of_robust(name: str, strata: str | None = None) -> Fields:
    """Return what is seen of cluster-robust draws, and of predictions by them."""
    fit = robust(name, strata)
    return {**view_fits.of_fit(fit), **view_fits.matrix(fit.predict(PEOPLE), "predicted")}


for _name in ("flat", "weights and offset", "poisson", "normal"):
    case(f"cluster_robust, {_name}")(partial(of_robust, _name))
    case(f"cluster_robust, strata, {_name}")(partial(of_robust, _name, "region"))


@case("cluster_robust, an array of few clusters")
def of_clusters_as_array() -> Fields:
    return view_fits.of_fit(first("flat").cluster_robust(pupils.FIRST["school"].to_numpy().astype(str)))


@case("cluster_robust, given to fit")
def of_clusters_given() -> Fields:
    settings = {"cluster": "room", "strata": "region", "random_state": SEED}
    return view_fits.of_fit(bc.fit(pupils.FLAT, pupils.FIRST, **settings, **fits.QUIET))


@case("cluster_robust, and back")
def of_model_spread() -> Fields:
    return view_fits.of_fit(robust("flat").cluster_robust(None))


# --- shares of a population -------------------------------------------------------------------------------------------

CELLS = pupils.ALL.iloc[::20].assign(number=1 + np.arange(len(pupils.ALL.iloc[::20])) % 7)


def of_shares(make: Any, name: str, by: Any) -> Fields:
    """Return shares of a population, in parts, by the fit that `make` makes of a model."""
    fit = make(name)
    return view_fits.matrix(fit.poststratify(CELLS, by=by, weights="number", prob=0.9, max_draws=500), "shares")


for _name, _by in (("flat", "way"), ("(1 | school)", "school"), ("(1 | school)", ["region", "way"]), ("probit", ())):
    _rounding = EFFECTS if "school" in _name else view_fits.DIFFERENCES
    case(f"poststratify, {_name}, by {_by}", tolerance=_rounding)(partial(of_shares, first, _name, _by))
case("poststratify, (1 | school) after an update", tolerance=EFFECTS)(
    partial(of_shares, updated, "(1 | school)", "school")
)
case("poststratify, cluster-robust")(partial(of_shares, robust, "flat", "way"))


# --- a folder ---------------------------------------------------------------------------------------------------------

SAVED = {
    "flat": partial(first, "flat"),
    "(1 | school)": partial(first, "(1 | school)"),
    "poisson": partial(first, "poisson"),
    "normal": partial(first, "normal"),
    "updated": partial(updated, "flat"),
    "updated, (1 | school)": partial(updated, "(1 | school)"),
    "cluster-robust": partial(robust, "flat", "region"),
    "another prior": partial(with_prior, "flat", "by name"),
}
WITH_PAGE = ("(1 | school)", "cluster-robust")


def answers(fit: Any) -> Fields:
    """Return print, summary, story, figures and predictions."""
    people = PEOPLE.assign(school=PEOPLE["school"].where(PEOPLE["age"] > 10, "new")) if fit.coreset.groups else PEOPLE
    return {**view_fits.of_fit(fit), **view_fits.matrix(fit.predict(people, prob=0.9), "predicted")}


def through_a_folder(name: str) -> Fields:
    """Return what a fit that was saved and read answers, and what of that is not as the fit itself answers."""
    fit = SAVED[name]()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        fit.save(path)
        files = sorted(each.name for each in path.iterdir())
        read = bc.read_fit(path, progressbar=False)
        known, same = answers(read), Case("read_fit", name, dict, tolerance=0.0)
        page = view_fits.of_page(bc.read_fit(path, pupils.FIRST, **fits.QUIET)) if name in WITH_PAGE else {}
        unlike = compared(same, known, answers(fit))
    if name not in WITH_PAGE:  # what the fit itself shows is recorded elsewhere
        known = {key: value for key, value in known.items() if key.startswith("predicted")}
    return {**known, **page, "files": files, "unlike the fit": unlike}


for _name in SAVED:
    case(f"read_fit, {_name}")(partial(through_a_folder, _name))


@case("read_fit, and updated")
def of_read_and_updated() -> Fields:
    with TemporaryDirectory() as folder:
        first("flat").save(Path(folder) / "model")
        read = bc.read_fit(Path(folder) / "model", progressbar=False)
        return view_fits.of_fit(read.update(pupils.MORE, **fits.QUIET))


# --- draws that `fit` did not make ------------------------------------------------------------------------------------


def of_draws(name: str, sampler: str) -> Fields:
    """Return what is seen of the fit of draws of a coreset that was built first."""
    formula, roles = MODELS[name]
    settings = {"random_state": SEED, **roles, **fits.QUIET}
    core = bc.build_coreset(pupils.FIRST, formula=formula, **settings)
    idata = view.undated(bc.sample(core, sampler=sampler, **{**fits.LONG, "draws": 600}))
    known = {key: value for key, value in roles.items() if key != "family"}
    fit = bc.Fit.from_draws(idata, core, pupils.FIRST, **known, **fits.QUIET)
    return {**view_fits.of_fit(fit), **view_fits.matrix(fit.predict(PEOPLE), "predicted")}


for _name, _sampler in (("flat", "mala"), ("probit", "gibbs"), ("(1 | school)", "collapsed"), ("poisson", "langevin")):
    case(f"Fit.from_draws, {_name}, {_sampler}")(partial(of_draws, _name, _sampler))
