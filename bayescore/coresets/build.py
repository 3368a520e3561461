"""`build_coreset`, the one verb, and `all_rows`, its counterpart for the whole data.

What every builder begins and ends with: rows in the design asked for, and a `Coreset` of the rows chosen.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields, replace
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from bayescore.coresets.aggregate import CellMoments, needs_cell_triangles
from bayescore.coresets.checks import checking_group_terms, warn_of_dependent_columns
from bayescore.coresets.method import Method, check_serves
from bayescore.coresets.methods import METHODS, check_once, listed, method_of
from bayescore.coresets.separation import warn_if_completely_separated, warn_if_separable
from bayescore.data.blocks import Intake, Stream, is_stream
from bayescore.data.coreset import TOTALS, Coreset, Shortfall, union_shortfall
from bayescore.data.dataset import ComomentsTotal, Dataset
from bayescore.data.design import Design
from bayescore.data.formula_design import formula_of
from bayescore.data.formula_learning import warn_of_absent_levels
from bayescore.data.groups import check_groupings
from bayescore.data.open import DesignedIntake, open_designed, open_in
from bayescore.data.passes import Comoments
from bayescore.data.responses import PAIRED
from bayescore.families import Family
from bayescore.families.family import Sized, check_exposure, check_family, missing_number_message
from bayescore.families.normal import Gaussian
from bayescore.models.modes import smooth_mode
from bayescore.models.normal import find_noise
from bayescore.models.posterior import likelihood_terms
from bayescore.numerics.sampling import sample_by_column
from bayescore.priors import Independent
from bayescore.priors.groups import DEFAULT_GROUP_PRIOR, STILL, conditional_sds, response_moments, sds_from_comoments
from bayescore.priors.smooths import Smooths, with_smooths
from bayescore.types import INTERCEPT, WeightedData
from bayescore.validation import DataError, RandomState, check_integer, check_seed, one_seed, warn

MANY_COLUMNS = 300  # beyond which the default prior of columns that are not scaled goes by their sds alone


def check_names(design: Design, label: str, intercept: bool) -> None:
    """Raise unless all that a fit creates has a name of its own: coefficients, groups, sds and correlations."""
    remedy = "rename the column"
    if intercept and INTERCEPT in (*design.raw_names, label):
        raise DataError(f"intercept=True, but the data have a column {INTERCEPT!r}; drop it or leave intercept=False")
    if not intercept and INTERCEPT in design.raw_names and formula_of(design) is not None:
        raise DataError(f"column {INTERCEPT!r} has the name of the intercept; {remedy}")
    for grouping in design.groups:
        if grouping.name in design.names:
            raise DataError(f"groups={grouping.name!r} has the name of a feature; rename it")
        made = {f"{log}{name}" for name in grouping.parameters for log in ("", "log ")}
        if same := sorted(made & set(design.names)):
            raise DataError(
                f"column {same[0]!r} has the name of a parameter of the effects of {grouping.name!r}; {remedy}"
            )


def apply_design(
    dataset: Dataset,
    family: Family,
    intercept: bool,
    standardize: bool,
    first_look: Callable[[Dataset], None] | None = None,
) -> Dataset:
    """Put raw rows through the design asked for; every row is checked first, by `first_look`, unless rows come once."""
    design = dataset.design
    check_names(design, dataset.rows.label, intercept)
    if standardize and not intercept and design.constant is None:
        _check_standardizable(design)
    if dataset.rereadable:
        comoments = ComomentsTotal(counts=family.counts)
        asked = standardize or design.given_others is None  # a coreset knows those of all rows
        few = asked and (standardize or len(design.names) <= MANY_COLUMNS)
        check_no_groups(family, design.groups)
        responses = ComomentsTotal(responses=True)  # known by sums of rows where noise is normal
        heavy = family.numbers and not family.quadratic and design.response is None
        with (
            checking_group_terms(dataset),
            dataset.map_alongside(comoments.of_block, comoments.add) if few else nullcontext(),
            dataset.map_alongside(responses.of_block, responses.add) if heavy else nullcontext(),
        ):
            if first_look is not None:
                first_look(dataset)
            constant = dataset.scan.constant
        if heavy:
            has_ones = intercept or design.constant is not None
            design = replace(design, response=response_moments(responses.of(dataset), constant=has_ones))
        # a design of other rows knows which levels there are
        absent = warn_of_absent_levels(design, dataset.scan) if design.classes is None else ()
        names = [name for name in np.asarray(design.names)[constant].tolist() if name not in (*absent, INTERCEPT)]
        of_formula = design.constant is not None and design.classes is None  # parts of its rows may be constant
        if (intercept or of_formula) and names:
            warn(f"column {names[0]!r} is constant, as the intercept is: the prior alone tells the two apart; drop it")
        if standardize:
            mean, sd, total = dataset.scan.mean, dataset.scan.sd, comoments.of(dataset)
            if family.counts:
                mean, sd = total.mean, np.sqrt(np.maximum(np.diagonal(total.covariance), 0.0))
            center = np.where(constant, 0.0, mean)
            still = constant | (sd == 0.0)
            scale = np.where(still, 1.0, sd)
            given = conditional_sds(total.covariance / np.outer(scale, scale), still=still)
            given[still] = 1.0
            design = replace(
                design, center=tuple(center.tolist()), scale=tuple(scale.tolist()), given_others=tuple(given.tolist())
            )
        elif asked:
            moments = comoments.of(dataset) if few else None
            design = _with_column_sds(design, dataset, moments, constant=intercept or design.constant is not None)
    if intercept:
        design = replace(design, intercept=True)
    return dataset if design is dataset.design else dataset.with_design(design)


def _with_column_sds(design: Design, dataset: Dataset, moments: Comoments | None, *, constant: bool) -> Design:
    """Return the design with the means and conditional sds of its columns, by which the default prior is scaled."""
    if moments is None:
        mean, sd = dataset.scan.mean, dataset.scan.sd
        given = np.where(sd > STILL * np.abs(mean), sd, 0.0)
    else:
        mean, given = moments.mean, sds_from_comoments(moments, constant=constant)
    return replace(design, given_others=tuple(given.tolist()), means=tuple(mean.tolist()))


def _check_standardizable(design: Design) -> None:
    """Raise if a slope varies on an uncentred column and no intercept takes up the mean that centring removes."""
    for group in design.groups:
        for effect in group.effects:
            if effect in dict(group.sums) or not group.is_correlated_with_intercept(effect):
                raise DataError(
                    f"standardize=True: {effect!r} varies by {group.name!r} on the column as it is, and there is no "
                    "intercept, which takes up a centred column's mean: leave standardize out, or + 0 of the formula"
                )


def check_no_groups(family: Family, named: object) -> None:
    """Raise if groups are named, and effects of theirs may have several modes: quadrature finds one of them."""
    if named and family.numbers and not family.quadratic:
        raise DataError(
            f"groups are given, and family={family.name!r} goes without them so far, as the effect of a group of few "
            "rows may have several modes: give family='normal', or the group as a column of levels, C(g)"
        )


def resolve_family(family: str | Family | None, design: Design | None, exposure: Any, data: Any = None) -> Family:
    """Return the family of a build, whose parameter may be unknown; raise if it is unknown and a design is given.

    By default it is that of a coreset `data`, else "logistic".
    """
    core = data if isinstance(data, Coreset) else None
    if family is None:
        family = "logistic" if core is None else core._family_asked if design is None else core.family
    asked = check_exposure(check_family(family, rows=design or core, seek=True), exposure)
    if isinstance(asked, Sized) and not (asked.complete or asked.found):
        raise ValueError(missing_number_message(asked, asked.name))
    if design is not None and not asked.complete:
        raise DataError(
            f"family={asked.name!r} is given beside design: rows in the design of a coreset are a part, or a test, and "
            "have its sd; give family=core.family"
        )
    return asked


def make_coreset(rows: WeightedData, **about: Any) -> Coreset:
    """Return `rows` as a coreset with the fields `about`, its family complete; warn if they have one label only."""
    family = check_family(about["family"], seek=True)
    check_exposure(family, about["design"].exposure)  # which blocks of rows bring
    part = about["design"].classes is not None  # rows in a design are a part of others
    if family.times and not part and about.get("event_total") == 0.0:
        raise DataError(
            f"none of {about['n_observations']:,} times ends with an event: {about['label']!r} is 0 in all rows; an "
            "event is 1, and times without one alone tell no mean"
        )
    if len(set(rows.y.tolist())) < 2 and not family.numbers:
        warn(
            f"all {len(rows)} rows of the coreset have one label; the posterior will be driven by the prior: "
            "ask for a larger size"
        )
    core = Coreset(**_row_fields(rows), version=version("bayescore"), **about)
    return core if family.complete else _with_sd(core)


def _row_fields(rows: WeightedData) -> dict[str, Any]:
    return {field.name: getattr(rows, field.name) for field in fields(WeightedData)}


def _with_sd(core: Coreset) -> Coreset:
    """Return a coreset of numbers with the sd of their noise in its family, and in `params` how well it is known."""
    few = core
    if core.method == "full":
        few = replace(core, **_row_fields(CellMoments.of(core, apart=needs_cell_triangles(core.design)).rows()))
    noise = find_noise(few)
    return replace(core, family=Gaussian(noise.sd).name, params={**core.params, **noise.params()})


def make_stream_coreset(
    rows: WeightedData,
    facts: Intake | DesignedIntake,
    design: Design,
    *,
    shortfall: Shortfall | None = None,
    **about: Any,
) -> Coreset:
    """Return rows of a stream as a coreset, with the labels, groups and totals of the stream so far."""
    design = replace(design, groups=facts.groupings)
    return make_coreset(
        facts.with_final_labels(rows),
        shortfall=None if shortfall is None else shortfall.mirrored(facts.sign),
        design=design.with_weights() if facts.weighted else design,
        classes=facts.classes,
        n_total=facts.n_rows,
        weight_total=facts.weight_total,
        **({} if facts.observations is None else facts.observations.facts(facts.weight_total, flipped=facts.sign < 0)),
        **about,
    )


def make_dataset_coreset(rows: WeightedData, dataset: Dataset, **about: Any) -> Coreset:
    """Return rows of a data set as a coreset; labels and totals of data that come once are known at their end."""
    data, design = dataset.rows, dataset.design
    if isinstance(data, Stream):
        check_groupings(replace(design, groups=data.intake.groupings), data.intake.n_rows, single=False)
        return make_stream_coreset(rows, data.intake, design, label=data.label, **about)
    return make_coreset(
        rows,
        design=design,
        classes=dataset.source.classes,
        label=data.label,
        n_total=dataset.scan.n_rows,
        weight_total=dataset.scan.weight_total,
        **dataset.scan.observations.facts(dataset.scan.weight_total),
        **about,
    )


def warn_if_groups_ignored(core: Coreset, method: Method) -> None:
    """Warn if the data have groups but the method ignored them."""
    if core.group is None or method.knows_groups:
        return
    lost = [
        f"{len(grouping) - len(np.unique(codes)):,} of {len(grouping):,} groups of {grouping.name!r}"
        for grouping, codes in zip(core.groups, core.group.T, strict=True)
    ]
    warn(
        f"method={method.name!r} chooses and weighs rows for the coefficients of the columns alone, and "
        f"{', '.join(lost)} have no row: effects of groups would be far off; use method='multilevel' for (1 | g), "
        "'aggregate', lossless, where rows repeat, or all_rows"
    )


def build_coreset(
    data: Any,
    y: Any = None,
    *,
    family: str | Family | None = None,
    method: str | Method = "auto",
    size: int | str = "auto",
    label: str | None = None,
    weights: Any = None,
    offset: Any = None,
    trials: Any = None,
    exposure: Any = None,
    positive: Any = None,
    missing: str = "raise",
    groups: Any = None,
    formula: str | None = None,
    intercept: bool = False,
    standardize: bool = False,
    design: Design | None = None,
    random_state: RandomState = None,
    random_seed: RandomState = None,
    progressbar: bool = True,
    **options: Any,
) -> Coreset:
    """Shrink a data set to a few hundred weighted rows with nearly the same posterior.

    Parameters
    ----------
    data : array, data frame, Arrow table, path, query, Dask collection, callable, iterator, Coreset or Source
        Rows: an array, dense or sparse, shape (N, D), or a coreset, to shrink it further. Or with `label` naming the
        labels' column: a pandas, polars, Arrow or Dask table, a LazyFrame, a relation of DuckDB, a dataset of Arrow,
        the path or address (``s3://...``) of a Parquet file or folder, or of a CSV file. Or a callable that returns a
        fresh iterator of blocks, (X, y) or (X, y, weights), each time; or such an iterator, read once.
    y : array, shape (N,), optional
        Labels of two classes, the second in sorted order +1, of an ordered categorical the last; or counts, or numbers.
    family : str or Family, optional
        Such as "probit", "poisson" or "normal"; by default that of a coreset `data`, else "logistic". Of "normal" the
        sd of the noise is a parameter, and ``core.family`` has about its mode; in "normal(2.5)" it is given.
    method : str or Method
        {methods}

        Or one of these with its options, ``Leverage(scores="sketch")``. ``core.method`` says which it was.
    size : int or "auto"
        Rows to draw; by scores a row may be drawn more than once, so there can be fewer. "auto" is what the method's
        options ask for (`tolerance` of ``"calibrated"``, `epsilon` of ``"sensitivity"`` and ``"leverage"``), else 1000,
        or 20 rows for each column if that is more. ``"aggregate"`` takes no size.
    label : str, optional
        Column of the labels.
    weights, offset, trials, exposure : array or str, optional
        A number for each row, or the name of its column, which is then no feature. Weights are 1 by default, and rows
        of weight 0 are left out. The offset o_n is the known part of the linear predictor, x_n . beta + o_n: a column,
        or an expression such as ``"log(years)"``. Trials are those of binomial counts; `y` or `label` are the
        successes: a row becomes two, with its successes and its failures as weights. Exposures are those of counts, 1
        by default: the weights of a row's two are its count and its exposure. Of "weibull" they are the times at risk,
        and `y` or `label` is 1 or True for those that end with the event. Blocks are (X, y, weights, offset, trials or
        exposure, groups), with None for what is not given.
    positive : label, optional
        The label that is +1.
    missing : {"raise", "drop"}
        What becomes of rows that miss a feature, label, weight, offset or group: an error that counts them by column,
        or they are left out, and a warning says how many.
    groups : str, array, list of str or dict, optional
        Grouping factors, whose effects a multilevel model draws from one prior each: the name of a column, then
        no feature, or an array of levels, text or whole numbers; several as a list of names or a dict of arrays. A
        name ``a:b`` that is not a column means the combinations of the columns a and b. Rows of the coreset keep the
        codes of their groups, ``core.group``; ``core.groups`` has names and levels.
    formula : str, optional
        Label and terms in R's syntax, "clicked ~ age * device + log(price)", as `formulaic` reads it: interactions,
        ``C(x, Sum)``, ``I(x**2)``, ``center``, ``scale``, ``poly``, splines ``bs`` and ``cr``, smooth terms ``s(x)``.
        Levels, centers and knots are learnt in one pass, kept in ``core.design``, and used for new rows. It has an
        intercept of its own; "+ 0" drops it. Group terms ``(1 | county)``, ``(1 + age | county)`` name `groups` and
        what varies by them; ``(1 | state/county)`` is ``(1 | state) + (1 | state:county)``, and
        ``(1 + age || county)``, of uncorrelated effects, ``(1 | county) + (0 + age | county)``. The left side
        ``k | trials(n)``, ``p(k, n)`` or ``cbind(k, n - k)`` names successes and `trials`, ``Surv(time, event)`` the
        event and, as `exposure`, the time, and ``Surv(time)`` times that all end with the event; that of numbers may be
        computed, ``log(y)``, and predictions are then of the logarithm. ``y ~ .`` takes all columns without a role,
        ``b %in% a`` is ``b:a``, and ``offset(log(years))`` an `offset`. Without a formula all columns are features, and
        those of text are coded against their first level.
    intercept : bool
        Put a column of ones, named "Intercept", first.
    standardize : bool
        Center columns and divide them by their (weighted, population) standard deviation, unless they are constant. A
        count has the weight of its row times its exposure there, however many events there are.
        Effects that are uncorrelated with intercepts, as in ``(1 + x || g)``, are of the column that is not centred.
    design : Design, optional
        ``core.design`` of an earlier coreset, for more rows of the same kind: they get its formula, levels, knots and
        scales. A new level is an error; new groups are added to it. `Coreset.concat` unites coresets of one design.
    random_state, random_seed : int, Generator, SeedSequence or None
        Seed, by either name, kept as ``core.random_state``; it gives the same coreset whatever the source, its blocks
        and the number of threads.
    progressbar : bool
        Show progress in terminals and notebooks.
    **options
        Options of a method that is given by its name, as in its class.

    Returns
    -------
    Coreset

    Raises
    ------
    DataError
        If the data cannot be used; the message names the place and the remedy.
    ValueError, TypeError
        For arguments that are out of range, of the wrong kind, or do not fit the method.

    Warns
    -----
    UserWarning
        If the labels are completely separated, so that the posterior is driven by the prior; if the coreset's error is
        expected to be large, or its guarantee is void; if columns depend on each other linearly.

    Examples
    --------
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="sensitivity", size=200, intercept=True, random_state=1)
    >>> core.n_total, core.feature_names
    (5000, ('Intercept', 'x0', 'x1'))
    >>> import pandas as pd
    >>> clicks = pd.DataFrame({"age": X[:, 0], "device": np.where(X[:, 1] > 0, "phone", "tablet"), "clicked": y})
    >>> bc.build_coreset(clicks, formula="clicked ~ age * device", size=200, random_state=1).feature_names
    ('Intercept', 'age', 'device[tablet]', 'age:device[tablet]')
    """
    chosen = method_of(method, options)
    sought = resolve_family(family, design, exposure, data)
    seed = check_seed(one_seed(random_state, random_seed))
    wanted = None if size == "auto" else check_integer(size, "size", low=1)
    check_serves(chosen, sought.name, METHODS)
    chosen.check(wanted, sought.name)
    if is_stream(data):
        check_once(chosen, standardize)
    _check_design(data, design, intercept=intercept, standardize=standardize, formula=formula)
    columns = {"label": label, "weights": weights, "offset": offset, "trials": trials, "exposure": exposure}
    columns |= {"groups": groups, "positive": positive, "missing": missing}
    if design is None:
        columns |= {"formula": formula, "once": True, "response": sought.response}
        dataset = open_designed(data, y, progress=progressbar, **columns)
    else:
        dataset = open_in(design, data, y, learn_groups=True, progress=progressbar, **columns)
    core = build_dataset(dataset, chosen, wanted, seed, sought, intercept=intercept, standardize=standardize)
    return _inherit_totals(data, core)


build_coreset.__doc__ = (build_coreset.__doc__ or "").replace("{methods}", listed().replace("\n", "\n        "))


def build_dataset(
    dataset: Dataset,
    method: Method,
    size: int | None,
    seed: int,
    family: Family,
    *,
    intercept: bool = False,
    standardize: bool = False,
) -> Coreset:
    """Build a coreset of a data set; `build_coreset` checks the arguments first."""
    if dataset.rereadable and size is not None:
        why = ", the rows of the data; all_rows keeps them all"
        check_integer(size, "size", low=1, high=dataset.source.n_rows, why=why)
    if isinstance(dataset.rows, Stream) and not family.symmetric:
        dataset.rows.require_both_labels()
    dataset = apply_design(dataset, family, intercept, standardize, partial(method.first_look, seed=seed))
    classes = PAIRED[family.response].classes if family.amounts else dataset.design.classes
    method = method.named(replace(dataset.design, classes=classes))
    if dataset.design.smooths:
        method = fix_bend_sds(method, dataset, family, seed)
    built = method.build(dataset, size, seed, family)
    if built.caution:
        warn(built.caution)
    if built.method.needs_overlap:
        warn_if_separable(built.rows, dataset if dataset.rereadable else None, seed)
    elif not (family.amounts or family.numbers or built.rows.pseudo.any()):  # which lie between rows
        warn_if_completely_separated(dataset, built.rows)
    core = make_dataset_coreset(
        built.rows,
        dataset,
        method=built.method.name,
        family=family.name,
        params={**built.info.params(), "passes": dataset.n_passes},
        random_state=seed,
        shortfall=built.shortfall,
    )
    warn_if_groups_ignored(core, built.method)
    if dataset.design.classes is None:  # rows in a design are a part of others
        warn_of_dependent_columns(core, built)
    return core


def fix_bend_sds(method: Method, dataset: Dataset, family: Family, seed: int) -> Method:
    """Return the method with a normal prior of bends, whose sds are estimated from a sample of the rows.

    The sample counts as many rows as it is worth: with probabilities pi of rows (sum 1 / pi)^2 / (sum 1 / pi^2).
    """
    if dataset.design.groups:
        raise DataError(
            f"groups are given, and the formula has {dataset.design.smooths[0]}: smooths go without groups so far; "
            "give a natural spline, cr(x, df=4, constraints='center')"
        )
    base = getattr(method, "prior", None)
    if not isinstance(base, Independent) or family.quadratic or not dataset.rereadable:
        return method  # it seeks no mode, or knows where, or reads the rows once
    prior = with_smooths(base, dataset.design, DEFAULT_GROUP_PRIOR.table)
    assert isinstance(prior, Smooths)
    sample = sample_by_column(dataset, seed)
    expansion, rows = 1.0 / sample.inclusion, sample.expanded()
    rows = rows.with_weights(rows.weights * (expansion.sum() / (expansion**2).sum()))
    mode = smooth_mode(partial(likelihood_terms, data=rows, family=family), prior)
    # a mode under a larger sigma, two sds of its logarithm above, has a wider posterior, which covers those of others
    return replace(method, prior=prior.given(mode.sigmas * np.exp(2.0 * mode.log_sigma_sds)))  # type: ignore[call-arg]


def all_rows(
    data: Any,
    y: Any = None,
    *,
    family: str | Family | None = None,
    label: str | None = None,
    weights: Any = None,
    offset: Any = None,
    trials: Any = None,
    exposure: Any = None,
    positive: Any = None,
    missing: str = "raise",
    groups: Any = None,
    formula: str | None = None,
    intercept: bool = False,
    standardize: bool = False,
    design: Design | None = None,
    new_groups: bool = False,
    progressbar: bool = True,
) -> Coreset:
    """Return all rows as a `Coreset` with their own weights (1 by default), read into memory.

    Models, samplers and comparisons take it as they take a coreset, also weighted rows that were made elsewhere.

    Parameters
    ----------
    data, y, family, label, weights, offset, trials, exposure, positive, missing, groups, formula
        As in `build_coreset`.
    intercept, standardize
        As in `build_coreset`.
    design : Design, optional
        ``core.design``, for test rows: they get the coreset's formula, intercept, centers, scales and codes of groups,
        and their labels mean the same; one of the two labels may be missing.
    new_groups : bool
        With a `design`: give rows of a group that the coreset does not know the code -1, in place of an error.
    progressbar : bool
        Show progress.

    Returns
    -------
    Coreset
        All rows; ``method`` is "full".

    Raises
    ------
    DataError, ValueError, TypeError
        As `build_coreset` does, or if rows for a `design` have other columns, levels, groups or labels.

    Examples
    --------
    >>> import bayescore as bc
    >>> X, y = bc.datasets.probit(5000, [1.0, 0.0], random_state=0)
    >>> full = bc.all_rows(X, y, progressbar=False)
    >>> full.X.shape, full.weight_total, full.method
    ((5000, 2), 5000.0, 'full')
    """
    sought = resolve_family(family, design, exposure, data)
    _check_design(data, design, intercept=intercept, standardize=standardize, formula=formula)
    columns = {"label": label, "weights": weights, "offset": offset, "trials": trials, "exposure": exposure}
    columns |= {"groups": groups, "positive": positive, "missing": missing}
    if design is None:
        if new_groups:
            raise ValueError("new_groups=True, but design is missing: all groups are new; give design=core.design")
        dataset = open_designed(data, y, formula=formula, progress=progressbar, response=sought.response, **columns)
        dataset = apply_design(dataset, sought, intercept, standardize)
    else:
        dataset = open_in(design, data, y, new_groups=new_groups, progress=progressbar, **columns)
    _ = dataset.scan  # checks the rows
    rows = dataset.load()
    return _inherit_totals(
        data, make_dataset_coreset(rows, dataset, method="full", family=sought.name, params={}, random_state=0)
    )


def _check_design(data: Any, design: Design | None, *, intercept: bool, standardize: bool, formula: str | None) -> None:
    """Raise if arguments that make columns are given twice, or beside a design."""
    if intercept and formula is not None:
        raise ValueError(f"formula={formula!r} has its own intercept; leave out intercept=True")
    if isinstance(data, Coreset) and (intercept or standardize):
        raise ValueError("intercept and standardize belong to the raw data; the coreset's design stays as it is")
    made = {} if design is None else {"intercept": intercept, "standardize": standardize, "formula": formula}
    if given := [f"{name}={value!r}" for name, value in made.items() if value]:
        raise ValueError(f"{given[0]} is given beside design, which brings its columns; leave it out")


def _inherit_totals(data: Any, core: Coreset) -> Coreset:
    """Return `core`; if `data` is a coreset itself, with the totals of the data it stands for and its shortfall."""
    if not isinstance(data, Coreset):
        return core
    missed = None
    if core.family == data.family:
        missed = union_shortfall([(each.shortfall, each.lossless) for each in (core, data)])
    method = data.method if core.lossless and not data.lossless else core.method  # all its rows miss what it does
    totals = {name: getattr(data, name) for name in TOTALS}
    return replace(core, **totals, shortfall=missed, method=method)
