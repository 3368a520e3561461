"""What every builder begins and ends with: rows in the design asked for, and a `Coreset` of the rows chosen."""

from collections.abc import Callable
from dataclasses import fields, replace
from importlib.metadata import version
from typing import Any

import numpy as np

from bayescore.coresets.group_checks import checking_group_terms
from bayescore.coresets.method import Method
from bayescore.coresets.sums import Sums, cells_apart
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.data.designed_blocks import DesignedIntake
from bayescore.data.formulas.absent import warn_of_absent_levels
from bayescore.data.shortfall import Shortfall
from bayescore.data.sources.blocks import Stream
from bayescore.data.sources.groups import check_groupings
from bayescore.data.sources.intake import Intake
from bayescore.models.families import Family, check_exposure, check_family
from bayescore.models.families.normal import Normal
from bayescore.models.noise import find_noise
from bayescore.types import INTERCEPT, WeightedData
from bayescore.validation import DataError, warn


def check_names(design: Design, label: str, intercept: bool) -> None:
    """Raise if a column has a name that the coreset needs for one of its own."""
    if intercept and INTERCEPT in (*design.raw_names, label):
        raise DataError(f"intercept=True, but the data have a column {INTERCEPT!r}; drop it or leave intercept=False")
    own = ("weight", label, *([] if design.offset is None else ["offset"]))
    for name in own:
        if name in design.names:
            raise DataError(f"a feature is named {name!r}, as a column of the coreset's file; rename the feature")
    for grouping in design.groups:
        if grouping.name in (*own, *design.names):
            raise DataError(
                f"groups={grouping.name!r} has the name of a feature, or of a column of the coreset's file; rename it"
            )


def designed(
    dataset: Dataset, intercept: bool, standardize: bool, first_look: Callable[[Dataset], None] | None = None
) -> Dataset:
    """Put raw rows through the design asked for; every row is checked first, by `first_look`, unless rows come once."""
    design = dataset.design
    check_names(design, dataset.rows.label, intercept)
    if dataset.rereadable:
        with checking_group_terms(dataset):
            if first_look is not None:
                first_look(dataset)
        constant = dataset.scan.constant
        # a design of other rows knows which levels there are
        absent = warn_of_absent_levels(design, dataset.scan) if design.classes is None else ()
        names = [name for name in np.asarray(design.names)[constant].tolist() if name not in (*absent, INTERCEPT)]
        own = design.constant is not None and design.classes is None  # of a formula; parts of its rows may be constant
        if (intercept or own) and names:
            warn(f"column {names[0]!r} is constant, as the intercept is: the prior alone tells the two apart; drop it")
        if standardize:
            sd = dataset.scan.sd
            center = np.where(constant, 0.0, dataset.scan.mean)
            scale = np.where(constant | (sd == 0.0), 1.0, sd)
            design = replace(design, center=tuple(center.tolist()), scale=tuple(scale.tolist()))
    if intercept:
        design = replace(design, intercept=True)
    return dataset if design is dataset.design else dataset.with_design(design)


def sought_family(family: str | Family | None, design: Design | None, exposure: Any, data: Any = None) -> Family:
    """Return the family of a build, whose number may be missing; raise if rows of a design of others should tell it.

    By default it is that of a coreset `data`, else "logistic".
    """
    core = data if isinstance(data, Coreset) else None
    if family is None:
        family = "logistic" if core is None else core.family
    known = check_exposure(check_family(family, rows=design or core, seek=True), exposure)
    if design is not None and not known.complete:
        raise DataError(
            f"family={known.name!r} is given beside design: rows in the design of a coreset are a part, or a test, and "
            "have its sd; give family=core.family"
        )
    return known


def finish(rows: WeightedData, **about: Any) -> Coreset:
    """Return `rows` as a coreset with the fields `about`, its family complete; warn if they have one label only."""
    family = check_family(about["family"], seek=True)
    check_exposure(family, about["design"].exposure)  # which blocks of rows bring
    if len(set(rows.y.tolist())) < 2 and not family.quadratic:
        warn(
            f"all {len(rows)} rows of the coreset have one label; the posterior will be driven by the prior: "
            "ask for a larger size"
        )
    core = Coreset(**_parts(rows), version=version("bayescore"), **about)
    return core if family.complete else _with_sd(core)


def _parts(rows: WeightedData) -> dict[str, Any]:
    return {field.name: getattr(rows, field.name) for field in fields(WeightedData)}


def _with_sd(core: Coreset) -> Coreset:
    """Return a coreset of numbers with the sd of their noise in its family, and in `params` how well it is known."""
    few = core
    if core.method == "full":
        few = replace(core, **_parts(Sums.of(core, apart=cells_apart(core.design)).rows()))
    noise = find_noise(few)
    if noise.caution is not None:
        warn(noise.caution)
    return replace(core, family=Normal(noise.sd).name, params={**core.params, **noise.params()})


def finish_stream(
    rows: WeightedData,
    known: Intake | DesignedIntake,
    design: Design,
    *,
    shortfall: Shortfall | None = None,
    **about: Any,
) -> Coreset:
    """Return rows of a stream as a coreset, with the labels, groups and totals of the stream so far."""
    design = replace(design, groups=known.groupings)
    return finish(
        known.settled(rows),
        shortfall=None if shortfall is None else shortfall.mirrored(known.sign),
        design=design.with_weights() if known.weighted else design,
        classes=known.classes,
        n_total=known.n_rows,
        weight_total=known.weight_total,
        **about,
    )


def finish_dataset(rows: WeightedData, dataset: Dataset, **about: Any) -> Coreset:
    """Return rows of a data set as a coreset; labels and totals of data that come once are known at their end."""
    data, design = dataset.rows, dataset.design
    if isinstance(data, Stream):
        check_groupings(replace(design, groups=data.intake.groupings), data.intake.n_rows, single=False)
        return finish_stream(rows, data.intake, design, label=data.label, **about)
    return finish(
        rows,
        design=design,
        classes=dataset.source.classes,
        label=data.label,
        n_total=dataset.scan.n_rows,
        weight_total=dataset.scan.weight_total,
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
