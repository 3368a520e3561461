r"""`fit`: from rows to a posterior that can be used.

One fit of several completed tables, as multiple imputation of missing entries makes them.

.. math:: p(\theta \mid y_{obs}) \approx \frac1M \sum_m p(\theta \mid y_{obs}, y_{mis}^{(m)})

All tables are fitted in the design of the first, under one prior in its columns, so that coefficients mean the same.
Draws of the mixture are as many of each table's posterior. Its certificate is the worst one.

Reference: Gelman et al. (2013), Bayesian Data Analysis, third edition, section 18.2; Rubin (1987), Multiple Imputation
for Nonresponse in Surveys.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayescore.compat import as_xarray
from bayescore.coresets.stream import StreamingCoreset
from bayescore.data.blocks import is_stream
from bayescore.data.coreset import Coreset
from bayescore.data.open import spelled_out
from bayescore.data.parquet import reads_like_formula
from bayescore.data.source import Source
from bayescore.data.tables import is_table
from bayescore.families import Family
from bayescore.families.family import ORDERED, Sized, Varying, check_family
from bayescore.fitting.clusters import check_curvature, check_labels, check_lonely, weights_in_domain, why_no_smooths
from bayescore.fitting.files import read_parts
from bayescore.fitting.prior import check_priors
from bayescore.fitting.result import Fit, fit_of_route
from bayescore.fitting.route import FitOptions, Given, Route, Step, certificate_rank, in_memory
from bayescore.fitting.student_t import size_route_type
from bayescore.models.groups.effects import EffectDraws
from bayescore.numerics.chains import evenly_spaced
from bayescore.priors import Normal, Prior
from bayescore.priors.groups import GroupPrior
from bayescore.priors.smooths import check_goes_with_smooths
from bayescore.samplers.posterior import with_draws
from bayescore.samplers.sample import AUTO, SAMPLERS, check_fit, check_sd, check_smooth_sampler
from bayescore.validation import DataError, RandomState, check_positive, check_seed, one_seed

DEFAULT_OPTIONS = FitOptions()


def fit(
    formula: Any,
    data: Any = None,
    *,
    family: str | Family | None = None,
    prior: Prior | Mapping[str, Prior] | None = None,
    group_prior: GroupPrior | None = None,
    label: str | None = None,
    weights: Any = None,
    offset: Any = None,
    trials: Any = None,
    exposure: Any = None,
    groups: Any = None,
    cluster: Any = None,
    strata: Any = None,
    lonely: str = "raise",
    domain: Any = None,
    positive: Any = None,
    missing: str = "raise",
    imputed: bool = False,
    intercept: bool = True,
    draws: int = 1000,
    tune: int = 1000,
    chains: int = 4,
    sampler: str = "auto",
    method: str = "auto",
    size: int | str = "auto",
    max_seconds: float = 600.0,
    random_state: RandomState = None,
    random_seed: RandomState = None,
    progressbar: bool = True,
) -> Fit:
    r"""Fit a regression of yes/no data, counts or numbers: build a coreset, sample it, and certify the draws.

    Where the certificate refuses, `fit` takes what it asks for: more draws, a larger coreset, in the end all rows.
    ``fit.story`` says what was done. A posterior for which that was not enough comes back too: its level is "not
    certified", which stands first in all that it prints.

    Columns are standardised inside, priors and figures are in units of the data's own columns. The default prior is

    .. math:: c_d \sim N(0, (2.5 / \mathrm{sd}(x_d | x_{-d}))^2), \qquad \alpha \sim N(0, 2.5^2)

    for the coefficient c_d of a column and the intercept \alpha where all columns are at their means. The sd is that of
    the column over all rows given the other columns, what remains of it after its regression on them; of a column that
    is a combination of others it is the column's own. Where columns are uncorrelated this is rstanarm's default. Of
    numbers sds are times sd(y), and alpha is about y's mean; of positive ones and times, whose unit may be any, alpha
    has the sd 10. `Fit.prior_summary` states all priors. Where a prior moves the mode by more than 2 nats of log
    likelihood, the first line that a fit prints says so.

    Parameters
    ----------
    formula : str, or rows
        Label and terms, "clicked ~ age * device + (1 | county)", with the rows as `data`. Or the rows X, of any kind
        that `build_coreset` takes, with the labels as `data` or their column as `label`. Or a coreset, such as that of
        a stream: if it misses a part of its rows the level is "not certified", and the text has the coreset's estimate
        of its error.
    data : rows, or labels
        Rows for a formula; labels, any two classes, for rows X.
    family : str or Family, optional
        "logistic" (default), "probit", "cloglog"; for counts "poisson" or "negative_binomial", for those above 0
        "truncated_poisson"; for positive numbers "gamma"; for times to an event, some censored, "weibull", with
        "Surv(weeks, relapse) ~ drug"; for numbers "normal", or with outliers "student_t"; or another that is
        registered. The size of negative binomial counts and the shape of gamma numbers and of Weibull times are
        parameters whose logarithm has the prior N(0, 2^2); the sd of normal noise, and scale and degrees of freedom of
        Student t noise, are parameters too. "negative_binomial(2.5)", "gamma(2.5)", "normal(2.5)" and "student_t(4)"
        have them given. For ordered categories "sratio", "sratio(probit)" or "sratio(cloglog)": the answer is then an
        `OrderedFit`, and weights, offsets and groups are columns.
    prior : prior or dict of str to prior, optional
        Of the coefficients in units of the data's columns, one for all or by their names (``{"age": Normal(0, 1)}``).
        "Intercept" is that at the columns' means, as in rstanarm and brms. A horseshoe or a multivariate prior is on
        the standardised columns.
    group_prior : HalfStudentT or HalfNormal, default HalfStudentT(3, 2.5)
        Of the sds of group terms' effects and of smooth terms; those of slopes are of the standardised columns.
    label, weights, offset, trials, exposure, groups, positive, missing
        As in `build_coreset`; the fit remembers them.
    cluster, strata : str or array, optional
        Clusters of rows that depend on each other, and strata that these were drawn from: the spread of the draws is
        cluster-robust, as `Fit.cluster_robust` makes it of a fit. An error of that last step, or an interrupt, has the
        finished fit as its attribute ``fit``.
    lonely : {"raise", "adjust", "average"}
        What becomes of strata of one cluster, as in `Fit.cluster_robust`: by default they are an error.
    domain : str or array, optional
        Rows that the coefficients are of, a column or an array of True and False or 1 and 0, of a survey with
        `cluster`. Others have weight 0, and their clusters count for the spread. For files and Dask name a column.
    imputed : bool
        Whether the rows are a list of completed tables, of multiple imputation: each is fitted, and the draws are
        pooled, as many of each (Gelman et al. 2013, section 18.2). Level and certificate are the worst of all.
        Answers that need rows take ``data=``, such as one table or all below each other. R-hat above 1.01 then says
        that the tables differ.
    intercept : bool
        Whether rows X get an intercept; a formula says so itself.
    draws, tune, chains : int
        Draws kept of each chain, draws of warm-up before them, and chains, as in `sample`. Where the certificate asks
        for more draws there are more.
    sampler, method : str, default "auto"
        Names, as `sample` and `build_coreset` have them. One that is named is kept; by default another is taken where
        draws or coreset do not suffice.
    size : int or "auto"
        Rows of the coreset, as in `build_coreset`. One that is given is kept.
    max_seconds : float
        Time that one step of an escalation, or sampling all rows, may take, by what it is expected to take; where the
        size of counts is a parameter, of each of its fits.
    random_state, random_seed : int, Generator, SeedSequence or None
        Seed, by either name.
    progressbar : bool
        Show in terminals and notebooks a line of the story for each step that is done, the one under way, and how long
        work that takes more than ten seconds will take.

    Returns
    -------
    Fit

    Raises
    ------
    DataError
        If the data cannot be used; the message names the place and the remedy.
    ValueError, TypeError
        For arguments that are out of range or of the wrong kind.

    Warns
    -----
    UserWarning
        If the draws could not be certified, and as `build_coreset` does.

    Examples
    --------
    >>> import numpy as np, pandas as pd, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> rows = pd.DataFrame({"age": rng.normal(45, 12, 5000), "device": rng.choice(["phone", "tablet"], 5000)})
    >>> rows["clicked"] = 0.05 * (rows["age"] - 45) + (rows["device"] == "tablet") + rng.logistic(size=5000) > 0
    >>> fit = bc.fit("clicked ~ age + device", rows, random_state=1, progressbar=False)
    >>> fit.level
    'certified'
    >>> fit.summary()["mean"].round(2).to_dict()
    {'Intercept': -2.32, 'age': 0.05, 'device[tablet]': 1.09}
    """
    options, ordered = FitOptions(draws, tune, chains, sampler, method, size), None
    if isinstance(family, str) and family.strip().lower().startswith(ORDERED):
        from bayescore.fitting.ordered import family_of_steps, ordered_fit, ordered_rows  # of ordered categories alone

        refused = {"trials": trials, "exposure": exposure, "positive": positive, "domain": domain}
        refused |= {"imputed": imputed or None, "intercept": None if intercept else intercept}
        roles = {"label": label, "weights": weights, "offset": offset, "groups": groups, "missing": missing}
        roles |= {"cluster": cluster, "strata": strata}  # that a dot does not stand for
        ordered, formula, data = ordered_rows(formula, data, family, roles, refused)
        family, label, missing = family_of_steps(family), None, "raise"
    pairs = _completed_tables(formula, data) if imputed else [(formula, data)]
    if imputed and not (cluster is None is strata is domain):
        raise DataError("imputed=True goes without cluster, strata and domain: fit each table with these, and pool")
    given = _rows_and_labels(*pairs[0], intercept, label)
    roles = {"label": label, "weights": weights, "offset": offset, "trials": trials, "exposure": exposure}
    roles = {name: value for name, value in {**roles, "groups": groups}.items() if value is not None}
    if missing != "raise":
        roles["missing"] = missing
    if family is not None:
        family = check_family(family, seek=True).name
    if domain is not None:
        if cluster is None:
            raise DataError("domain is given without cluster: fit the rows of the domain alone, or name the clusters")
        roles["weights"] = weights_in_domain(given["data"], weights, domain)
    if given.get("formula") is not None:
        taken = {**roles, "cluster": cluster, "strata": strata, "domain": domain, "weights": weights}
        given["formula"] = spelled_out(given["formula"], given["data"], roles=taken)
    known = Given(**given, positive=positive, roles=roles, progressbar=progressbar, predictive=ordered is None)
    check_lonely(lonely, strata)
    clustered = cluster is not None or strata is not None
    if clustered:
        check_priors(prior)
        if known.smooths:
            raise DataError(why_no_smooths(known.smooths[0]))
        check_curvature(prior, "give another")
        check_labels(known, cluster, strata, lonely=lonely, response=_response(family))
    seed = one_seed(random_state, random_seed)
    beside: dict[str, Any] = {"group_prior": group_prior, "options": options}
    arguments: dict[str, Any] = {"max_seconds": max_seconds, "random_state": seed, **beside}
    if ordered is None:
        found = fit_given(known, family, prior, **arguments)
    else:
        with known.data.naming_rows():
            found = fit_given(known, family, prior, made=partial(ordered_fit, ordered), **arguments)
    if imputed:
        return _pooled(found, [_rows_and_labels(*pair, intercept, label) for pair in pairs[1:]], **beside)
    if not clustered:
        return found
    with _kept_on_error(lambda: found, "the fit, whose cluster_robust does not sample again"):
        return found.cluster_robust(cluster, strata=strata, lonely=lonely)


def fit_given(
    given: Given,
    family: str | None,
    prior: Prior | Mapping[str, Prior] | None,
    *,
    group_prior: GroupPrior | None = None,
    max_seconds: float,
    random_state: RandomState,
    options: FitOptions = DEFAULT_OPTIONS,
    in_design: Prior | None = None,
    made: Callable[[Fit], Fit] = lambda found: found,
) -> Fit:
    """Return the fit of rows whose roles are known; other arguments as in `fit`, or `Route`.

    `made` makes what is returned, or is left after an error, of that fit.
    """
    check_priors(prior)
    if (asked := options.build_options) and isinstance(given.data, Coreset) and given.lossy:
        raise TypeError(
            f"{next(iter(asked))!r} is given, and data is a coreset, which misses a part of its rows: leave it out"
        )
    of_core = given.data.family if isinstance(given.data, Coreset) else None
    model_family = check_family(family or of_core or "logistic", seek=True)
    if options.sampler != AUTO:
        sampler = SAMPLERS[options.sampler]
        if given.smooths:
            check_smooth_sampler(sampler, given.smooths[0])
        elif not isinstance(prior, Mapping):
            check_fit(sampler, model_family.name, Normal(0.0, 1.0) if prior is None else prior)
        if of_core is None:
            check_sd(sampler, model_family.name, unknown=model_family.quadratic and not model_family.complete)
    check_positive(max_seconds, "max_seconds")
    seed = check_seed(random_state)
    given.check_group_prior(group_prior)
    given.check_lossy(family, prior)
    if isinstance(prior, Prior) and not prior.bends and given.smooths:
        check_goes_with_smooths(prior, given.smooths[0])
    if isinstance(prior, Mapping) and not given.once:
        given.check_names(prior, response=_response(family))
    arguments: dict[str, Any] = {"in_design": in_design, "group_prior": group_prior, "options": options}
    varies = isinstance(model_family, Varying) and not model_family.complete
    if isinstance(model_family, Sized) and not model_family.complete:
        given.check_parameter(model_family)
    route = (size_route_type(model_family) if varies else Route)(given, family, prior, seed, max_seconds, **arguments)
    with _kept_on_error(lambda: made(fit_of_route(route.finish())), "what was finished", route.can_finish):
        route.run()
    return made(fit_of_route(route))


_LAST: list[Callable[[], Fit]] = []  # how to make a fit of what the last call of `fit` had finished, if it did not end


@contextmanager
def _kept_on_error(
    finished: Callable[[], Fit], what: str, can_finish: Callable[[BaseException], bool] = lambda _: True
) -> Iterator[None]:
    """Keep what is finished for `last_fit` where the body is interrupted or fails, if the error leaves anything."""
    _LAST.clear()
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if can_finish(error):
            _LAST[:] = [finished]
            error.add_note(f"bc.last_fit() returns {what}")
        raise


def last_fit() -> Fit:
    """Return what the last call of `fit` had finished when it was interrupted, as by Ctrl-C, or failed.

    Draws that were not yet checked against the rows are "not certified"; ``fit.update(data=rows)`` checks them. Where a
    later try was interrupted, draws and certificate are those before it. Where only the coreset was finished, it is
    sampled and certified now. For a cluster-robust fit it is the one with the model's own spread. Where the size or
    shape of the family is a parameter it is the fit at one size, in the middle of the posterior.

    Returns
    -------
    Fit

    Raises
    ------
    DataError
        If the last call of `fit` in this process ended well, or had finished nothing.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.last_fit()  # after Ctrl-C a fit
    Traceback (most recent call last):
    bayescore.validation.DataError: no call of fit was interrupted after it had finished a coreset; call fit
    """
    if not _LAST:
        raise DataError("no call of fit was interrupted after it had finished a coreset; call fit")
    return _LAST[0]()


def _completed_tables(formula: Any, data: Any) -> list[tuple[Any, Any]]:
    """Return the first two arguments of `fit` for each of several completed tables."""
    by_formula = isinstance(formula, str) and reads_like_formula(formula)
    tables = data if by_formula else formula
    if not isinstance(tables, list | tuple) or len(tables) < 2:
        what = f"{len(tables)} of them" if isinstance(tables, list | tuple) else f"a {type(tables).__name__}"
        raise TypeError(f"imputed=True is of a list of two or more completed tables, and data is {what}")
    return [(formula, table) if by_formula else (table, data) for table in tables]


def _pooled(first: Fit, others: list[dict[str, Any]], **beside: Any) -> Fit:
    """Return the pooled fit of imputed tables, given that of the first, and rows and labels of the others."""
    rows_of_first, fits = first._rows_given, [first]
    beside |= {"in_design": first._design_prior}
    for k, table in enumerate(others, 1):
        # the design has the classes
        given = replace(rows_of_first, data=table["data"], y=table.get("y"), positive=None, like=first.coreset)
        asked = {"max_seconds": first._max_seconds, "random_state": first._seed + k, **beside}
        family = first._family_asked if first._size_varies else first.coreset.family
        fits.append(fit_given(given, family, first.prior, **asked))
    return pooled(fits)


def _response(family: str | None) -> str:
    return check_family(family or "logistic", seek=True).response


def _rows_and_labels(formula: Any, data: Any, intercept: bool, label: str | None) -> dict[str, Any]:
    """Return rows, labels and formula from the first two arguments of `fit`."""
    if isinstance(formula, str) and reads_like_formula(formula):
        if not intercept:
            raise ValueError("intercept=False is given beside a formula, which says so itself: write 'y ~ 0 + age'")
        if data is None:
            raise TypeError(f"formula={formula!r}, but data is missing: give the rows, fit(formula, rows)")
        return {"data": data, "formula": formula}
    if isinstance(data, str) and reads_like_formula(data):
        raise TypeError(f"data={data!r} is a formula, which comes first: fit(formula, rows)")
    if isinstance(formula, str) and is_table(data):
        raise TypeError(f"formula={formula!r} has no '~': give label and terms, 'y ~ x', or rows and labels, fit(X, y)")
    if isinstance(formula, StreamingCoreset):
        raise TypeError("formula is a stream: give the coreset of its rows so far, fit(stream.coreset())")
    brings_labels = label is not None or is_stream(formula) or callable(formula)
    if data is None and not brings_labels and not isinstance(formula, Coreset | Source):
        raise TypeError(
            f"formula is a {type(formula).__name__} and data is missing: give a formula and rows, fit('y ~ x', rows), "
            "rows and labels, fit(X, y), or rows with label="
        )
    return {"data": formula, "y": data, "intercept": intercept and not isinstance(formula, Coreset)}


def pooled(fits: Sequence[Fit]) -> Fit:
    """Return the worst of some fits, by certificate, with the draws of all."""
    first, M = fits[0], len(fits)
    for k, fit in enumerate(fits):
        if fit.coreset.design != first.coreset.design:
            raise DataError(
                f"data[{k}] has groups that data[0] has not, so that their effects cannot be pooled: put a table that "
                "has all levels first, or impute within the levels that are there"
            )
        if any(isinstance(variable, EffectDraws) for variable in fit._posterior().variables.values()):
            raise DataError("groups are too many for their effects' draws to be kept, and so to be pooled; fit a table")
    worst = max(fits, key=lambda fit: certificate_rank(fit.certificate))
    rows, passes = worst.coreset.n_total, sum(step.passes for fit in fits for step in fit.story)
    seconds = sum(step.seconds for fit in fits for step in fit.story)
    step = Step("pool", rows, passes, seconds, f"{M} imputed tables; the steps above are those of the worst")
    text = f"Of {M} imputed tables this is the worst: {worst.certificate.text}"
    return replace(
        worst,
        certificate=worst.certificate._with(text=text),
        story=(*worst.story, step),
        _robust=_pooled_draws([fit._used for fit in fits], f"pooled over {M} imputed tables"),
        _given=None,
        _kept=(),
        _seed=first._seed,
    )


def _pooled_draws(each: Sequence[Any], text: str) -> Any:
    """Return as many draws of each posterior, as chains after each other."""
    sets = [as_xarray(idata["posterior"]) for idata in each]
    n_chains, n_draws = (min(one.sizes[dim] for one in sets) for dim in ("chain", "draw"))
    parts = []
    for k, one in enumerate(sets):
        places = evenly_spaced(one.sizes["draw"], n_draws)
        part = one.isel(chain=slice(n_chains), draw=places)
        parts.append(part.assign_coords(chain=np.arange(n_chains) + k * n_chains, draw=np.arange(n_draws)))
    mixture = xr.concat(parts, dim="chain", data_vars="minimal", coords="minimal", compat="override", join="exact")
    attrs = {name: value for name, value in sets[0].attrs.items() if name != "posterior_of"}
    mixture.attrs = {**attrs, "spread": text}
    return with_draws(each[0], mixture)


def read_fit(folder: str | Path, data: Any = None, y: Any = None, *, progressbar: bool = True) -> Fit:
    """Read a fit that `Fit.save` wrote.

    Parameters
    ----------
    folder : str or Path
        The folder.
    data, y : rows and labels, optional
        Those that the fit was made of, for answers that need them (another prior, averages over all rows, `loo`). The
        fit remembers which columns play which role; arrays of weights and the like are not kept. Their number, weight
        and score, or labels by group, are checked: of rows in memory here, of others by a pass before the first answer.
    progressbar : bool
        Show progress of answers that read these rows, as `fit` does.

    Returns
    -------
    Fit

    Raises
    ------
    FileNotFoundError
        If the folder holds no fit.
    DataError
        If a file was changed since, or is damaged; the message names it. If `data` are other rows.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 1))
    >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
    >>> folder = tempfile.mkdtemp()
    >>> fit.save(folder)
    >>> again = bc.read_fit(folder)
    >>> again.level, bool((again.summary() == fit.summary()).all(axis=None))
    ('certified', True)
    """
    parts = read_parts(folder, data, y, progressbar=progressbar)
    if parts["ordered"] is None:
        del parts["ordered"]
        fit = Fit(**parts)
    else:
        from bayescore.fitting.ordered import OrderedFit  # of ordered categories alone

        fit = OrderedFit(**parts)
    return replace(fit, _given=fit._rows_of_data) if in_memory(data) else fit
