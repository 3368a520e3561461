"""Opens rows with a design: a formula, a design of earlier rows, or the default coding of columns of text as factors.

`DesignedIntake`: opens rows that come in blocks by a formula, or the design of other rows.

A block is whatever `build_coreset` takes. The first one gives levels, knots and centres, as all rows would; later ones
are opened in that design. A group that no block had before is added to it.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any, Self

import pyarrow as pa

from bayescore.data.blocks import LABEL, Block, BlockTotals, is_stream
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset, open_rows
from bayescore.data.design import Design, Grouping, check_design
from bayescore.data.factors import JOINT, Levels, Selection, check_levels, check_levels_repeat
from bayescore.data.formula_design import FormulaDesign, formula_design, formula_of, read_design
from bayescore.data.formula_learning import learner, learnt_design, with_varying_effects
from bayescore.data.formula_parsing import every_column, has_dot, parsed
from bayescore.data.groups import Grouper, check_groupings, errors_name_by
from bayescore.data.passes import ObservationTotals
from bayescore.data.responses import LABELS, SECOND_ROLE, Classes, Expression, response_of, response_text
from bayescore.data.roles import NO_WEIGHTS
from bayescore.data.source import Source
from bayescore.data.sources import column_names, has_named_columns
from bayescore.limits import MAX_LEVELS, MAX_LEVELS_NAMED
from bayescore.text import first_difference, listed
from bayescore.types import NO_GROUP, NO_ROW, WeightedData
from bayescore.validation import ColumnError, DataError, OneOnlyError, check_alone, warn


def open_designed(
    data: Any,
    y: Any = None,
    *,
    formula: str | None = None,
    label: str | None = None,
    once: bool = False,
    first: bool = False,
    progress: bool = False,
    **others: Any,
) -> Dataset:
    """Open data and learn their design: by a formula, or with text coded against its first level.

    A formula takes a pass where some term learns from the rows. Without one a later pass must check them. Where more
    rows follow these `first` ones, their groups may be few.

    The other arguments are as in `open_rows`.
    """
    if formula is not None:
        formula = spelled_out(formula, data, y, {"label": label, **others})
        asked = parsed(formula)
        if isinstance(data, Coreset):
            check_alone("a coreset", formula=formula)
        if is_stream(data):
            raise DataError(
                "formula is given, but the rows of data come once, and it learns from them first: give a callable that "
                "returns a fresh iterator of blocks each time"
            )
        label = _label(data, y, label, asked.response, formula)
        for role, given_value, how in (
            ("trials", asked.trials, "names them"),
            ("exposure", asked.exposure, "has Surv, which names it"),
            ("offset", asked.offset, f"has offset({asked.offset})"),
            ("groups", [term.column for term in asked.groups] or None, "has group terms"),
        ):
            if given_value is not None and others.get(role) is not None:
                raise DataError(f"{role} is given beside formula={formula!r}, which {how}; leave {role} out")
            others[role] = others.get(role) if given_value is None else given_value
        selection = Selection(asked.columns, factors=asked.factors)
    else:
        selection = Selection()
    dataset = open_rows(data, y, label=label, once=once, progress=progress, selection=selection, **others)
    named = {"label": label, "weights": others.get("weights"), "trials": others.get("trials")}
    roles = tuple((role, column) for role, column in named.items() if isinstance(column, str))
    if roles:
        dataset.design = replace(dataset.design, roles=roles)
    if others.get("weights") is not None:
        dataset.design = dataset.design.with_weights()
    single = (
        not any(others.get(name) is not None for name in ("trials", "weights"))
        and others.get("response", LABELS) == LABELS
    )
    if dataset.rereadable and not (first or isinstance(data, WeightedData) or others.get("clusters")):
        check_groupings(dataset.design, dataset.source.n_rows, single=single)
    levels: Levels = getattr(dataset.rows, "levels", ())
    for name, levels_of_column in levels:
        limit = MAX_LEVELS if formula is None else MAX_LEVELS_NAMED
        check_levels(f"column {name!r}", name, levels_of_column, limit)
        if single and dataset.rereadable and not first:
            check_levels_repeat(f"column {name!r}", levels_of_column, dataset.source.n_rows)
    if formula is not None:
        _check_response(dataset, y, formula)
        by = learner(dataset.design.raw_names, formula, levels, dataset.source.n_rows)
        learnt = None
        if by.learns:
            # rows that a source makes several rows of count once
            work = data.on_first_steps(by, dataset.design.raw_names) if hasattr(data, "on_first_steps") else by
            with dataset.counting_missing():
                learnt = reduce(add, dataset.map(work, "learning the formula"))
        design = learnt_design(by, learnt)
        if asked.groups:
            design = with_varying_effects(design, dataset.design.groups, lambda: next(iter(dataset.blocks())).X)
        return dataset.with_design(design)
    if not levels:
        return dataset
    factors = [f"{name!r} ({len(levels_of_column)} levels)" for name, levels_of_column in levels]
    warn(
        "columns of text are coded as factors, each level but the first against the first: "
        f"{listed(factors, shown=str)}; drop those that are no factors, or give a formula"
    )
    return dataset.with_design(formula_design(dataset.design.raw_names, None, levels, {}))


def spelled_out(formula: str, data: Any, y: Any = None, roles: Mapping[str, Any] | None = None) -> str:
    """Return a formula with the columns of data that a lone dot stands for: all others but the columns of `roles`."""
    if not (isinstance(formula, str) and has_dot(formula) and has_named_columns(data)):
        return formula
    names = column_names(data)
    taken = {getattr(y, "name", None)}
    for role, given in (roles or {}).items():
        for name in given if isinstance(given, list | tuple) else [given]:
            if isinstance(name, str) and role not in ("missing", "response", "positive"):
                taken |= {*Expression.of(name, names).columns, *name.split(JOINT)}
    return every_column(formula, names, filter(None, taken))


def open_in(
    design: Design,
    data: Any,
    y: Any = None,
    *,
    label: str | None = None,
    offset: Any = None,
    positive: Any = None,
    groups: Any = None,
    new_groups: bool = False,
    learn_groups: bool = False,
    clusters: Any = None,
    parts: Sequence[str] = (),
    progress: bool = False,
    whose: str = "the design",
    **others: Any,
) -> Dataset:
    """Open data in a design learnt from other data.

    Raises `DataError` if features, levels, labels, offset or groups differ. Label, weights, trials, offset and groups
    of a table are by default the columns that they were. With `new_groups` a group that the design does not have gets
    the code `NO_GROUP`; with `learn_groups` the design gets it, after those that it has. `clusters`, given as groups
    are, part the rows and are in no term of the design, which must have no groups; they may be features, too.
    """
    selection = None
    check_design(design)
    if isinstance(design, FormulaDesign):
        selection = Selection(None if design.formula is None else design.raw_names, design.raw_levels)
        if design.formula is not None:
            label = _label(data, y, label, parsed(design.formula).response, design.formula)
    factors = [grouping.name for grouping in design.groups]
    given = {"offset": offset, "exposure": others.get("exposure"), "groups": groups}
    if has_named_columns(data):
        roles = design.role_columns
        offset = design.offset if offset is None else offset
        groups = groups if groups is not None else factors or None
        label = label if label is not None or y is not None else roles.get("label")
        others |= {role: roles.get(role) for role in ("weights", "trials") if others.get(role) is None}
    if clusters is not None or parts:  # which may be features, too
        others["clusters"] = True
        selection = Selection(design.raw_names) if selection is None else replace(selection, names=design.raw_names)
    if clusters is not None:
        groups = clusters
    elif groups is not None and not factors:
        raise DataError(f"groups is given, but {whose} has none; leave it out")
    if parts:
        named = [] if groups is None else [groups] if isinstance(groups, str) else groups
        if not (isinstance(named, list | tuple) and all(isinstance(name, str) for name in named)):
            raise DataError(f"by={list(parts)} are columns, and groups were given as arrays; make these columns, too")
        groups = [*named, *parts]
    brings_labels = isinstance(data, Coreset | Source) or others.get("trials") is not None
    response = LABELS if isinstance(data, Coreset | Source) else response_of(design.classes)
    exposed = SECOND_ROLE[response] == "exposure"
    if exposed and others.get("exposure") is None and has_named_columns(data):
        others["exposure"] = design.exposure
    if positive is None and design.classes is not None and not brings_labels and response == LABELS:
        positive = Classes(*design.classes)
    others |= {"label": label, "offset": offset, "positive": positive, "response": response}

    def opened(**groups_asked: Any) -> Dataset:
        return open_rows(data, y, progress=progress, selection=selection, **others, **groups_asked)

    def learnt(names: Any) -> tuple[Grouping, ...]:
        with warnings.catch_warnings(action="ignore"):  # the rows are opened again below
            return opened(groups=names).design.groups

    ready = isinstance(data, Source | WeightedData)  # they have codes
    if learn_groups and factors and groups is not None and not ready:
        with _clear_role_errors(design, **given):
            design = with_new_levels(design, learnt(groups))
    groupers = None if ready else tuple(Grouper(grouping, new_groups) for grouping in design.groups) or None
    if parts:
        with errors_name_by():
            groupings = learnt(list(parts))
        groupers = (*(groupers or ()), *(Grouper(each_grouping, role="by") for each_grouping in groupings))
    with _clear_role_errors(design, **given):
        dataset = opened(groups=groups, groupers=groupers)
    if design.classes is not None and tuple(dataset.source.classes) != tuple(design.classes):
        raise DataError(
            f"data has {response_text(dataset.source.classes)}, {whose} {response_text(design.classes)}; give the same "
            "response, and of labels, the second +1, the same positive="
        )
    if exposed and dataset.design.exposure is None and design.exposure is not None:
        raise DataError(f"exposure is missing: {whose} had one, {design.exposure!r}; give one for each row")
    if exposed and dataset.design.exposure is not None and design.exposure is None:
        raise DataError(f"exposure is given, but {whose} had none; leave it out")
    if (dataset.design.offset is None) != (design.offset is None):
        raise DataError(
            f"offset is given, but {whose} had none; leave it out"
            if design.offset is None
            else f"offset is missing: {whose} had one, {design.offset!r}; give one for each row, 0 for none"
        )
    names = dataset.design.raw_names
    if names != design.raw_names:
        shown, before = first_difference(names, design.raw_names)
        raise DataError(f"data has the features {shown}, {whose} {before}; give the same columns in the same order")
    if len(dataset.design.groups) != len(factors) + len(parts) and clusters is None:
        has = ", ".join(repr(grouping.name) for grouping in dataset.design.groups) or "none"
        raise DataError(f"data has the groups {has}, {whose} {', '.join(map(repr, factors)) or 'none'}; give the same")
    weighted = others.get("weights") is not None or dataset.rows.design.weighted
    if learn_groups and design.weighted and not (weighted or ready):  # further rows of those data
        raise DataError(NO_WEIGHTS)
    if weighted:
        design = design.with_weights()
    return Dataset(dataset.rows, design, progress=progress)


@contextmanager
def _clear_role_errors(design: Design, **given: Any) -> Iterator[None]:
    """Turn errors of a missing column into errors that name the role, as offset or groups, which the rows lack."""
    try:
        yield
    except ColumnError as error:
        role, groups = error.role.partition("[")[0], ", ".join(grouping.name for grouping in design.groups)
        name_in_design = {"offset": design.offset, "exposure": design.exposure, "groups": groups}.get(role)
        formula = formula_of(design)
        by_formula = role == "groups" and formula is not None and bool(parsed(formula).groups)
        if not name_in_design or given[role] is not None or by_formula:
            raise
        none = ", 0 for none" if role == "offset" else ""
        raise DataError(
            f"{role} is missing: earlier rows had one, and {error.args[0].partition(';')[0]}; add it, or give {role}=, "
            f"one for each row{none}"
        ) from None


def with_new_levels(design: Design, groupings: Sequence[Grouping]) -> Design:
    """Return a design that knows the levels of other rows, too, after those that it has; codes of these stay."""
    if len(groupings) != len(design.groups):  # `open_in` says so
        return design
    groups = []
    for grouping, other in zip(design.groups, groupings, strict=True):
        places = Grouper(grouping, new=True).places(pa.array(other.levels))
        new = tuple(level for level, place in zip(other.levels, places, strict=True) if place == NO_GROUP)
        groups.append(replace(grouping, levels=grouping.levels + new))
    return replace(design, groups=tuple(groups))


def _label(data: Any, y: Any, label: str | None, response: str | None, formula: str) -> str | None:
    """Return the column of labels: `label`, or the formula's left side."""
    if label is not None and response is not None and label != response:
        raise DataError(f"label={label!r} and the left side of formula={formula!r} differ; leave label out")
    if label is not None or response is None or y is not None:
        return label
    return response if has_named_columns(data) else None  # others bring their labels


def _check_response(dataset: Dataset, y: Any, formula: str) -> None:
    response = parsed(formula).response
    if y is not None and response not in (None, dataset.rows.label):
        raise DataError(
            f"the left side of formula={formula!r} is {response!r}, but y, which is called {dataset.rows.label!r}, is "
            "given; leave the left side out, or y"
        )


@dataclass(frozen=True, eq=False)
class DesignedIntake(BlockTotals):
    """Facts of the blocks so far: the design with its classes, and numbers of rows.

    `roles` are arguments of `open_designed`, such as the names of columns.
    """

    roles: Mapping[str, Any]
    formula: str | None = None
    response: str = LABELS
    design: Design | None = None
    label: str = LABEL
    n_given: int = 0  # with rows of weight 0 and rows left out
    sign: int = field(default=1, init=False)  # labels have their sign from the first block on

    @property
    def classes(self) -> tuple[Any, Any]:
        """The two labels, the second +1."""
        assert self.design is not None
        assert self.design.classes is not None
        return self.design.classes

    labels = classes

    @property
    def groupings(self) -> tuple[Grouping, ...]:
        """The grouping factors, with their levels so far."""
        return () if self.design is None else self.design.groups

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return self.design is not None and self.design.weighted

    def with_final_labels(self, rows: WeightedData) -> WeightedData:
        """Return rows of these blocks with their final labels and codes, which they have."""
        return rows

    def take(self, block: Block) -> tuple["DesignedIntake", Iterator[WeightedData]]:
        """Return the intake after another block, whose rows are checked, and the rows in the design."""
        given = block._asdict()
        given[SECOND_ROLE[self.response]] = given.pop("beside")
        data, y = given.pop("X"), given.pop("y")
        roles = {**self.roles, **{name: value for name, value in given.items() if value is not None}}
        if y is not None:
            roles.pop("label", None)
        try:
            dataset = self._opened(data, y, roles)
            scan = dataset.scan
        except OneOnlyError as error:
            raise DataError(
                f"block {self.n_blocks}: {error}. The first block tells labels and levels: begin with one that has "
                "them all, name the labels as classes=, or give the design= of a coreset that knows them"
            ) from error
        except DataError as error:
            raise DataError(f"block {self.n_blocks}: {error}") from error
        design = replace(dataset.design, classes=tuple(dataset.source.classes))
        intake = replace(
            self,
            design=design,
            label=self.label if self.n_blocks else dataset.rows.label,
            n_blocks=self.n_blocks + 1,
            n_rows=self.n_rows + scan.n_rows,
            n_given=self.n_given + getattr(dataset.rows, "n_given", dataset.source.n_rows),
            weight=self.weight + scan.weight,
            observations=None if self.observations is None else self.observations + scan.observations,
        )
        return intake, _numbered_from(dataset.blocks(), self.n_given)

    def _opened(self, data: Any, y: Any, roles: dict[str, Any]) -> Dataset:
        if isinstance(data, Coreset | WeightedData | Source):
            raise DataError(f"the rows are a {type(data).__name__}; give a table, a path or an array")
        if self.design is None:
            return open_designed(data, y, formula=self.formula, response=self.response, first=True, **roles)
        if self.n_blocks:  # the design has the classes
            roles.pop("positive", None)
        whose = "the blocks before it" if self.n_blocks else "the design"
        return open_in(self.design, data, y, learn_groups=True, whose=whose, **roles)

    def to_dict(self) -> dict[str, Any]:
        """Return the intake, without the design's columns, as plain JSON values."""
        assert self.design is not None
        names = ("formula", "label", "n_blocks", "n_rows", "n_given", "weight")
        roles = {name: value for name, value in self.roles.items() if name != "positive"}  # the design has the classes
        settings = {"roles": roles, "classes": list(self.classes), "design_roles": dict(self.design.roles)}
        observations = None if self.observations is None else self.observations.to_list()
        return {**{name: getattr(self, name) for name in names}, **settings, "observations": observations}

    @classmethod
    def from_dict(cls, fields: dict[str, Any], design: dict[str, Any], *, response: str) -> Self:
        """Rebuild an intake from `to_dict`'s values for it and its design, for responses of a kind."""
        values = dict(fields)
        classes, by = values.pop("classes"), values.pop("design_roles")
        design_of_classes = replace(read_design(design), classes=(classes[0], classes[1]), roles=tuple(by.items()))
        values["observations"] = ObservationTotals.from_list(values.get("observations"))
        return cls(**values, design=design_of_classes, response=response)


def _numbered_from(blocks: Iterable[WeightedData], start: int) -> Iterator[WeightedData]:
    """Yield blocks whose rows are numbered from `start` on."""
    for block in blocks:
        index = block.index.copy()
        index[index != NO_ROW] += start
        yield replace(block, index=index)
