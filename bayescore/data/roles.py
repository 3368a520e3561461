"""`Roles`: what belongs to rows besides features, such as labels and weights, and the columns that have it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import pyarrow as pa

from bayescore.data.column_kinds import check_numeric, check_read, coded_numbers, is_text, pandas_facts
from bayescore.data.columns import Columns
from bayescore.data.factors import Selection, columns_of
from bayescore.data.groups import GROUP, GivenGroups, Grouper, known_groupers
from bayescore.data.responses import ABOVE, BINOMIAL, LABELS, PAIRED, POSITIVE, SECOND_ROLE, TIMED, Expression, Paired
from bayescore.text import free_name, listed
from bayescore.validation import ColumnError, DataError, NoLabelError, check_alone, check_choice, warn

OFFSET = "offset"  # name of offsets that come as arrays
ROLES = ("label", "weights", "offset", "trials", "exposure", "groups", "missing")
"""Arguments that say what columns are, as users give them."""
MISSING = ("raise", "drop")
_COMPUTED = ("label", "trials", "exposure", "weights")  # roles that an expression of columns may play
_FEATURES_TOO = ("weights", "offset", "exposure")  # roles whose columns a formula may name as well
NO_WEIGHTS = "weights is missing: earlier rows had some; give weights=, one for each row, 1 for none"


@dataclass(frozen=True, eq=False)
class Roles:
    """What plays which role besides the features, None where nothing does; `build_coreset` explains each to users."""

    y: Any = None  # array of labels
    label: str | None = None  # column of the labels
    weights: Any = None  # array, or the name of a column; offset and trials too
    offset: Any = None
    trials: Any = None  # of each row; the labels are then successes
    exposure: Any = None  # of each row, where the labels are counts, 1 by default; or times, where they are events
    response: str = LABELS  # what responses are, as the family says
    positive: Any = None  # the label that is +1
    missing: str = "raise"  # what becomes of rows that miss something
    groups: Any = None  # a name, an array, or several in a list of names or a dict
    groupers: tuple[Grouper, ...] | None = (
        None  # factors of `groups` whose levels are given; None: the source learns them
    )
    clusters: bool = False  # whether `groups` part the rows and are in no term: they may be features, too

    def __post_init__(self) -> None:
        check_choice(self.missing, "missing", MISSING)
        if self.response in ("numbers", POSITIVE, TIMED):
            self._check_numbers()
        elif self.response in ("counts", ABOVE):
            if self.trials is not None:
                remedy = "give exposure=" if self.response == "counts" else "leave it out"
                raise DataError(f"trials are given, but the family takes counts without an upper end; {remedy}")
            if self.positive is not None:
                raise DataError(f"positive={self.positive!r} is given, but the family takes counts; leave it out")
        elif self.exposure is not None:
            raise DataError(
                "exposure is given, but the family takes labels; give family='poisson' for counts, 'weibull' for times "
                "that Surv names, or log(exposure) as offset"
            )
        elif self.trials is not None and self.positive is not None:
            raise DataError(f"positive={self.positive!r} is given beside trials, whose successes are +1; leave it out")

    def _check_numbers(self) -> None:
        remedies = {
            "trials": "the family takes numbers, not successes of trials: leave it out, or give family='logistic'",
            "exposure": "the family takes numbers, not counts or times: leave it out, or give family='poisson' or "
            "'weibull'",
            "offset": "the family takes numbers, and it can be subtracted from them: give y - offset as y",
        }
        if self.response == POSITIVE:
            remedies = {
                "trials": "the family takes positive numbers, not successes: leave it out, or give family='logistic'",
                "exposure": "the family takes positive numbers, not counts or times: give log(exposure) as offset, or "
                "family='weibull' for times that Surv names",
            }
        if self.response == TIMED:
            remedies = {
                "trials": "the family takes times, not successes: leave it out, or give family='logistic'",
                "offset": "the family takes times, which it multiplies: give time / exp(offset) as the time",
            }
        for name, remedy in remedies.items():
            if getattr(self, name) is not None:
                raise DataError(f"{name} is given, but {remedy}")
        if self.positive is not None:
            raise DataError(f"positive={self.positive!r} is given, but the family takes {self.response}; leave it out")

    @property
    def paired(self) -> Paired | None:
        """What kind of number the response is; None where it is a label."""
        return PAIRED.get(self.response, BINOMIAL if self.trials is not None else None)

    @property
    def beside(self) -> Any:
        """The number that goes with the response: exposure or trials, or None."""
        return getattr(self, SECOND_ROLE[self.response])

    @property
    def drop(self) -> bool:
        """Whether rows that miss something are left out."""
        return self.missing == "drop"

    def check_named(self, what: str) -> None:
        """Raise `DataError` unless labels, weights, offsets and trials are columns of the data, which are `what`."""
        if self.y is not None:
            raise DataError(f"y is given beside {what}; name the column of the labels as label")
        for name in ("weights", "offset", "trials", "exposure"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, str):
                raise DataError(f"{name} of {what} must be the name of a column")
        GivenGroups.of(self.groups, None)

    def check_none(self, what: str, *allowed: str) -> None:
        """Raise `DataError` if more than `allowed` is given with `what`, which brings labels and weights."""
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in allowed}
        check_alone(
            what, **{name: value for name, value in given.items() if name not in ("missing", "response", "clusters")}
        )
        if self.drop:
            raise DataError(
                f"missing='drop' is given, but data is {what}: leave rows that miss something out where they are made, "
                "of a block those of ~numpy.isnan(X).any(axis=1)"
            )


def named_roles(
    roles: Roles, names: Sequence[str], n_rows: int | None = None, *, by_argument: bool = False
) -> tuple[Roles, dict[str, Any]]:
    """Return the roles as names of columns, and the columns that are not in the data, by name.

    `names` are the columns of the data; `n_rows` is None for a Dask collection, whose groups are collections too.
    Labels have the name that an array of them has, unless they are called `by_argument`.
    """
    label, groups, extra = roles.label, roles.groups, {}
    if n_rows is None and hasattr(groups, "__dask_graph__"):
        groups = {_name_of(groups, GROUP): groups}
    if n_rows is None and isinstance(groups, dict):
        columns, groups = groups, list(groups)
    else:
        given = GivenGroups.of(groups, n_rows, names)
        groups = list(given.names) or None
        columns = {} if given.columns is None else dict(zip(given.names, given.columns.columns, strict=True))
    if taken := [name for name in columns if name in names]:
        raise DataError(f"data has a column {taken[0]!r} beside groups; rename it, or give its name as groups")
    if roles.y is not None:
        if label is not None:
            raise DataError(f"y and label={label!r} are both given; give one of them")
        label = free_name("y", (*names, *columns)) if by_argument else _name_of(roles.y, "y")
        if label in names:
            raise DataError(
                f"data has a column {label!r} as y has: drop it from data, or leave y out and give label={label!r}"
            )
        extra[label] = roles.y
    names_of_roles: dict[str, Any] = {}
    for role, name in (("weights", "weight"), ("offset", OFFSET), ("trials", "trials"), ("exposure", "exposure")):
        values = getattr(roles, role)
        if values is not None and not isinstance(values, str):
            names_of_roles[role] = free_name(name, (*names, *columns))
            extra[names_of_roles[role]] = values
    return replace(roles, y=None, label=label, groups=groups, **names_of_roles), {**extra, **columns}


def _name_of(values: Any, default: str) -> str:
    """Return the name of a separate column; a Dask array's name is a key of its graph."""
    if hasattr(values, "__dask_graph__") and not hasattr(values, "to_frame"):
        return default
    return str(getattr(values, "name", None) or default)


def resolve_columns(
    roles: Roles, schema: pa.Schema, selection: Selection | None = None, *, only: Iterable[str] | None = None
) -> Columns:
    """Return the columns to read of a table with this schema: all, those of `only`, or those of a selection.

    Roles are names of columns, or it raises. Without a selection the features must be numbers. A selection may name
    columns of weights, offsets and exposures too, but not separate arrays, which `only` leaves out.
    """
    label, names = roles.label, schema.names
    columns = listed(names, 10, str)
    if not label:
        stored = pandas_facts(schema, "index_columns")
        free_columns = tuple(name for name in names if name not in stored)
        raise NoLabelError(f"label is missing: name the column of the labels; the columns are {columns}", free_columns)
    groups = GivenGroups.of(roles.groups, None).names
    offset = None if roles.offset is None else Expression.of(roles.offset, names)
    in_offset = () if offset is None else offset.columns
    computed = tuple(one for one in (_role_expression(roles, role, names) for role in _COMPUTED) if one is not None)
    given = {one.role: one.columns for one in computed}
    named = {"label": label, "weights": roles.weights, "offset": roles.offset if roles.offset in in_offset else None}
    named |= {"trials": roles.trials, "exposure": roles.exposure}
    named |= {f"groups[{k}]" if len(groups) > 1 else "groups": name for k, name in enumerate(groups)}
    groupers = known_groupers(roles.groupers, groups)
    known_columns = {by.grouping.name: by.grouping.columns for by in groupers}  # rows may have them by other names
    read_of = {name: known_columns.get(name) or columns_of(name, names) for name in groups}
    parts = tuple(dict.fromkeys(part for columns_of_group in read_of.values() for part in columns_of_group))
    for argument, name in named.items():
        of_groups = argument.startswith("groups")
        read = () if name is None else read_of[name] if of_groups else given.get(argument, (name,))
        if len(set(read)) < len(read):
            raise DataError(f"{argument}={name!r} names a column twice; name each once")
        if lacking := [part for part in read if part not in names]:
            what = "is" if read == (name,) else f"takes {lacking[0]!r},"
            said = f"{argument}={name!r} {what} not a column of the data; the columns are {columns}"
            term = f". A formula names groups in terms such as (1 | {name})"
            raise ColumnError(f"{said}{term}" if of_groups else said, argument)
    if lacking := [name for name in in_offset if name not in names]:
        raise ColumnError(
            f"offset={roles.offset!r} takes {lacking[0]!r}, not a column of the data; the columns are {columns}",
            "offset",
        )
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise DataError(f"column {repeated!r} stands more than once in data; rename one")
    named = {argument: name for argument, name in named.items() if argument not in given}
    taken = {name: argument for argument, name in reversed(named.items()) if name is not None}
    for argument, name in named.items():
        if name is not None and taken[name] != argument:
            raise DataError(f"{taken[name]} and {argument} both name the column {name!r}; name two, or leave one out")
    of_exposure = given.get("exposure", (named.get("exposure"),))
    if both := [name for name in in_offset if name in of_exposure]:
        raise DataError(f"the exposure is in the offset {roles.offset!r} too, by column {both[0]!r}; leave one out")
    stored = pandas_facts(schema, "index_columns")
    if label in parts and label not in groups:
        raise DataError(f"groups take the column {label!r}, which is the label; name another")
    made_of = {name: role for role, columns_of_expression in reversed(given.items()) for name in columns_of_expression}
    taken = dict.fromkeys(parts, "groups") | made_of | taken | dict.fromkeys(in_offset, "offset")
    features = tuple(name for name in (names if only is None else only) if name not in (*taken, *stored))
    if selection is not None and selection.names is not None:
        also = [name for name, argument in taken.items() if argument in _FEATURES_TOO or name in made_of]
        allowed = [name for name in parts if roles.clusters or name not in groups]
        allowed += [name for name in also if only is None or name in only]
        missing = [name for name in selection.names if name not in (*features, *allowed)]
        if missing and missing[0] in groups:
            raise DataError(
                f"column {missing[0]!r} is a grouping factor and a feature too; leave one out, or give a copy of it "
                "under another name"
            )
        if missing and taken.get(missing[0]) in ("label", "trials"):
            what = "the label, which is" if missing[0] == label else "trials, which are"
            raise DataError(f"column {missing[0]!r} is {what} no feature: leave it out of the formula's terms")
        if missing and missing[0] in stored:
            raise DataError(
                f"column {missing[0]!r} is the index of a data frame, no feature: write it by reset_index()"
            )
        if missing:
            raise DataError(f"the data have no feature {missing[0]!r}; the columns are {columns}")
        features = selection.names
    elif not features:
        raise DataError(f"the data have no feature columns beside {label!r}")
    coded = () if selection is None else selection.levels or ()
    coded_names = {name for name, _ in coded}
    text = {name for name in features if is_text(schema.field(name).type)} if selection is not None else set()
    if selection is not None and selection.levels is None:
        coded_before = coded_numbers(schema)
        categories = [name for name in features if name in coded_before]
        if new := [name for name in categories if name not in selection.factors]:
            warn(
                f"columns {listed(new)} were categoricals of numbers in pandas: they are factors whose levels are "
                "sorted, as Parquet files do not keep their order"
            )
        text |= set(categories)
    if selection is not None and selection.levels is not None and (new := sorted(text - coded_names)):
        kind = schema.field(new[0]).type
        raise DataError(f"column {new[0]!r} is {kind}, and held numbers in the data of the design; convert it")
    numbers = tuple(name for name in features if name not in text | coded_names)
    labels = () if roles.paired else (label,)
    read = tuple(name for role in _COMPUTED for name in given.get(role, (getattr(roles, role),)) if name)
    own_numbers = [name for name, role in taken.items() if not role.startswith("groups") and name not in labels]
    check_read(schema, (*features, *read, *parts))
    if label in names and pa.types.is_nested(kind := schema.field(label).type):
        raise DataError(f"column {label!r}, the label, is {kind}; labels are text, numbers or booleans")
    check_numeric(schema, (*numbers, *own_numbers))
    return Columns(
        features,
        label,
        roles.weights,
        levels=coded,
        text=tuple(name for name in features if name in text - coded_names),
        factors=tuple(name for name in text if selection is not None and selection.calls_factor(schema, name)),
        offset=offset,
        paired=roles.paired,
        beside=roles.beside,
        computed=computed,
        drop=roles.drop,
        groups=groups,
        group_columns=parts,
        groupers=groupers,
    )


def _role_expression(roles: Roles, role: str, names: Sequence[str]) -> Expression | None:
    """Return what plays a role as an expression of columns; None where it is a column."""
    text = getattr(roles, role)
    if text is None or text in names:
        return None
    expression = Expression.of(text, names, role)
    if expression.plain:
        return None
    if roles.paired is None and role != "weights":
        raise DataError(
            f"{role}={text!r} is computed from columns, and the family takes labels: name the column of the labels, or "
            "give family='normal' for numbers, 'gamma' for positive ones, 'poisson' for counts"
        )
    return expression
