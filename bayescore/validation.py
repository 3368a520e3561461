"""What enters bayescore is checked here, once, before work starts.

Every message names the argument, the value met and the remedy.
"""

import json
import operator
import re
import reprlib
import sys
import warnings
from collections.abc import Iterable
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal
from numbers import Real
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayescore.limits import MAX_EXACT, MAX_OFFSET, MAX_TOTAL_WEIGHT
from bayescore.types import FloatArray

_TOO_HEAVY = (
    "a row of weight w counts as w rows, and of more the posterior is lost in rounding; divide the weights so that "
    "they sum to the number of rows that there are; numbers of family='gamma' are weights, too: give a larger unit"
)

Places = int | NDArray[np.int64]  # of rows: of the first, or of each
RandomState = int | np.random.Generator | np.random.SeedSequence | None


class DataError(ValueError):
    """The data cannot be used as they are; the message says where and what to do."""


class EarlierDesignError(DataError):
    """What was stored means another model than the same formula does in this version."""


class OneOnlyError(DataError):
    """Rows have one label, or one level of a factor, and others may have more."""


class ColumnError(DataError):
    """The data lack the column that has a role, such as "offset"."""

    def __init__(self, message: str, role: str = "") -> None:  # with a default the error can be pickled
        super().__init__(message)
        self.role = role


class NoLabelError(DataError):
    """No column is named as the label of rows whose columns are `columns`."""

    def __init__(self, message: str, columns: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.columns = columns


class RowError(DataError):
    """One row cannot be used; `row` is its position, so that whoever knows the files can name one."""

    def __init__(self, message: str, row: int = -1) -> None:  # with a default the error can be pickled
        super().__init__(message)
        self.row = row


class LittleGainWarning(UserWarning):
    """A method of builds keeps most rows as they are, since it can hardly condense them."""


def warn(message: str, category: type[UserWarning] = UserWarning) -> None:
    """Warn, with the line that called bayescore as the place: what is called between its frames is no user's line."""
    level, depth, frame = 1, 1, sys._getframe()
    while frame.f_back is not None:
        depth += 1
        if frame.f_globals.get("__name__", "").startswith("bayescore"):
            level = depth
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=level)


def check_choice(value: object, name: str, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`."""
    names = list(choices)
    if not isinstance(value, str) or value not in names:
        listed = ", ".join(repr(choice) for choice in names)
        raise ValueError(f"{name}={value!r} is unknown; choose one of {listed}")
    return value


def check_integer(value: object, name: str, *, low: int, high: int | None = None, why: str = "") -> int:
    """Return `value` as an int between `low` and `high`, both included."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name}={value!r} must be a whole number") from None
    if number < low or (high is not None and number > high):
        limits = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"{name}={number} must be {limits}{why}")
    return number


def check_positive(value: object, name: str, *, below: float = np.inf) -> float:
    """Return `value` as a finite float above 0 and below `below`."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(f"{name}={value!r} must be a number") from None
    if not 0.0 < number < below:
        limits = "positive and finite" if below == np.inf else f"above 0 and below {below:g}"
        raise ValueError(f"{name}={number:g} must be {limits}")
    return number


def check_generator(random_state: object) -> np.random.Generator:
    """Turn `random_state` (None, an int, a SeedSequence or a Generator) into a Generator."""
    if random_state is None or isinstance(random_state, np.random.Generator | np.random.SeedSequence):
        return np.random.default_rng(random_state)
    seed = check_integer(random_state, "random_state", low=0, why="; give a seed or a numpy Generator")
    return np.random.default_rng(seed)


def one_seed(random_state: RandomState, random_seed: RandomState, default: RandomState = None) -> RandomState:
    """Return the seed, which may be given by either name, scikit-learn's or PyMC's, or a default one."""
    if random_state is not None and random_seed is not None:
        raise TypeError(
            f"random_state={random_state!r} and random_seed={random_seed!r} are both given; they are two names of one "
            "seed: leave one out"
        )
    return next((seed for seed in (random_state, random_seed) if seed is not None), default)


def check_seed(random_state: object, name: str = "random_state") -> int:
    """Turn `random_state` (None, an int, a SeedSequence or a Generator) into one seed that can be recorded.

    The seed of None is fresh; passing a returned seed again repeats the result.
    """
    random_state = np.random.SeedSequence() if random_state is None else random_state
    if isinstance(random_state, np.random.SeedSequence):
        return int(random_state.generate_state(1)[0])
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**32))
    return check_integer(random_state, name, low=0, high=2**64 - 1, why="; give a seed or a numpy Generator")


def json_object(text: Any, problem: str) -> dict[str, Any]:
    """Return the JSON object that `text` is; `problem` is the message if it is no object."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise DataError(problem) from None
    if not isinstance(value, dict):
        raise DataError(problem)
    return value


def from_json(kind: Any, value: Any, name: str, **more: Any) -> Any:
    """Return a value that was read from JSON as what it should be: a type, a dataclass, or a union or list of such.

    `more` are fields of a dataclass that are no JSON.

    Raises
    ------
    DataError
        If it is something else; the message names the field, what it is and what was expected.

    Examples
    --------
    >>> from_json(float | None, 3, "mean")
    3.0
    >>> from_json(dict[str, int], {"draws": True}, "asked")
    Traceback (most recent call last):
      ...
    bayescore.validation.DataError: asked['draws'] is True; int was expected
    """
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        for part in parts:
            try:
                return from_json(part, value, name)
            except DataError:
                continue
    elif origin is list and isinstance(value, list):
        return [from_json(parts[0], item, f"{name}[{k}]") for k, item in enumerate(value)]
    elif origin is dict and isinstance(value, dict):
        return {key: from_json(parts[1], item, f"{name}[{key!r}]") for key, item in value.items()}
    elif is_dataclass(kind) and isinstance(value, dict):
        fields_of_kind = {one.name: one for one in fields(kind)}
        hints = get_type_hints(kind)
        if unknown := [key for key in value if key not in fields_of_kind]:
            raise DataError(f"{name} has a field {unknown[0]!r}, which is not known")
        needed = [
            one.name for one in fields_of_kind.values() if one.default is MISSING and one.default_factory is MISSING
        ]
        if absent := [key for key in needed if key not in (*value, *more)]:
            raise DataError(f"{name} lacks the field {absent[0]!r}")
        values = {
            key: from_json(hints[key], item, f"{name}[{key!r}]") for key, item in value.items() if key not in more
        }
        make: Any = kind
        return make(**values, **more)
    elif isinstance(kind, type) and _is_plain(kind, value):
        try:
            return None if value is None else kind(value)
        except (ValueError, OverflowError):
            pass
    shown = getattr(kind, "__name__", str(kind)) if origin is None else str(kind)
    raise DataError(f"{name} is {reprlib.repr(value)}; {shown} was expected")


def _is_plain(kind: type, value: Any) -> bool:
    """Whether a value of JSON is of a plain type; a whole number is a float, and counts are not negative."""
    if kind is NoneType:
        return value is None
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if issubclass(kind, str):
        return isinstance(value, str) and not _SURROGATE.search(value)
    return isinstance(value, kind)


_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which cannot be printed


def native(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array in this machine's byte order, the only one that pandas and Arrow read."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def check_alone(what: str, **given: object) -> None:
    """Raise `DataError` if any of the arguments `given` is not None: the data, which are `what`, have their own."""
    for name, value in given.items():
        if value is not None:
            raise DataError(f"{name} is given, but data is {what}, which has its own; leave it out")


def check_unmasked(value: Any, name: str) -> None:
    """Raise if `value` is an array with masked entries, whose mask NumPy would drop without a word."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise DataError(f"{name} is a masked array with masked entries; drop such rows or impute them before building")


def check_aligned(**given: Any) -> None:
    """Raise unless the pandas objects among the arguments, None where left out, have the same index.

    Rows go together by their positions; an index that says otherwise is neither ignored nor followed.
    """
    # a list has an index, too, and one of Dask's is no values: its partitions are looked at
    indexes = {
        name: getattr(value, "index", None) for name, value in given.items() if not hasattr(value, "__dask_graph__")
    }
    indexed: list[tuple[str, Any]] = [(name, index) for name, index in indexes.items() if hasattr(index, "equals")]
    for name, index in indexed[1:]:
        first, other = indexed[0]
        if len(index) == len(other) and not index.equals(other):  # other lengths are refused elsewhere
            raise DataError(
                f"{name} has another index than {first}: align them, {name}.loc[{first}.index], or give "
                f"{name}.to_numpy() if the rows go together as they stand"
            )


def numbers_of_objects(values: NDArray[Any]) -> NDArray[np.float64] | None:
    """Return Python objects that are all numbers, or missing, as floats; None if some is not, or is no exact float.

    So are columns of dtype object with numbers of several types: 1, 2.5, True, Decimal("0.1").
    """
    missing = pd.isna(values)
    present = values[~missing]
    kinds = {type(value) for value in present.ravel()}
    if not kinds or not all(issubclass(kind, Real | Decimal | np.bool_) for kind in kinds):
        return None
    numbers = np.full(values.shape, np.nan)
    try:
        numbers[~missing] = [float(value) for value in present]
    except OverflowError:
        return None
    whole = [value for value in present if isinstance(value, int | np.integer)]
    return None if any(abs(int(value)) > MAX_EXACT for value in whole) else numbers


def check_matrix(X: Any, name: str = "X", *, n_columns: int | None = None) -> NDArray[Any]:
    """Return `X` as a non-empty 2-D array of real numbers, without a copy where it is one.

    Finiteness is not checked here: a pass over the rows does that block by block.
    """
    check_unmasked(X, name)
    if hasattr(X, "toarray"):
        raise TypeError(f"{name} is a sparse {type(X).__name__}; give {name}.toarray()")
    try:
        array = np.asarray(X)
    except ValueError:
        raise DataError(f"{name} is no matrix: its rows differ in length") from None
    if array.ndim == 0:
        raise TypeError(f"{name} is a {type(X).__name__}; give a 2-D array, a data frame or the path of a Parquet file")
    if array.ndim != 2:
        hint = "; reshape a single feature with X.reshape(-1, 1)" if array.ndim == 1 else ""
        raise DataError(f"{name} has shape {array.shape}; it must be 2-D, rows by features{hint}")
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise DataError(f"{name} has shape {array.shape}; it needs at least one row and one column")
    if array.dtype.kind == "O" and (numbers := numbers_of_objects(array)) is not None:
        array = numbers
    if array.dtype.kind not in "fiub":
        raise DataError(
            f"{name} has dtype {array.dtype}; it must be numeric: give text in a data frame, or as 0/1 columns"
        )
    if n_columns is not None and array.shape[1] != n_columns:
        raise DataError(f"{name} has {array.shape[1]} columns, but {n_columns} features are expected")
    return array


_SPLINE = re.compile(r"\b((?:bs|cr|cs|cc)\(.*?)\)(?=\[\d+\])")  # a term, and all of it but the last parenthesis


def check_finite(
    block: NDArray[Any], names: tuple[str, ...], start: Places, where: str = "the data", *, given: tuple[str, ...] = ()
) -> None:
    """Raise if `block` (rows start, start + 1, ... of the data, or these rows) holds NaN or infinity.

    If the finite columns `given` are named, the others are terms of a formula, computed of them.
    """
    if np.isfinite(block.sum()) or np.isfinite(block).all():
        return
    row, column = (int(i) for i in np.argwhere(~np.isfinite(block))[0])
    place = start + row if isinstance(start, int) else int(start[row])
    if given and names[column] not in given:
        n_bad = int((~np.isfinite(block[:, column])).sum())
        if spline := _SPLINE.search(names[column]):
            rest = re.sub(r",\s*extrapolation=[^,]*", "", spline[1])
            raise RowError(
                f"{where}: row {place} lies beyond the bounds of {spline[0]}, as do {n_bad:,} of the {len(block):,} "
                f"rows looked at. Leave such rows out, or fit with {rest}, extrapolation='extend'), whose curves go "
                "on, or with extrapolation='clip', lower_bound= or upper_bound=",
                place,
            )
        no_help = "missing='drop' leaves out rows whose columns miss something, not these: " if where != "X" else ""
        raise RowError(
            f"{where}: {names[column]!r} is {block[row, column]} in row {place}, though its columns are finite; "
            f"it is not finite in {n_bad:,} of the {len(block):,} rows looked at. {no_help or 'To predict, '}filter "
            "them, or write a term that is finite there, such as log1p(x)",
            place,
        )
    raise RowError(
        f"{where}: column {names[column]!r} is {block[row, column]} in row {place}; drop such rows or impute them",
        place,
    )


def check_numbers_of_rows(values: Any, n_rows: int, name: str, one: str = "number") -> FloatArray:
    """Return `values` as floats, shape (n_rows,)."""
    check_unmasked(values, name)
    try:
        given = np.asarray(values)
        numbers = np.asarray(pd.to_numeric(given)) if given.dtype == object else given
        if numbers.dtype.kind in "mM":  # which NumPy would turn into floats
            raise TypeError
        array = np.asarray(numbers.real, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{name} must be numbers, one for each row") from None
    if np.iscomplexobj(numbers):
        raise DataError(f"{name} has complex numbers; give real ones")
    if array.shape != (n_rows,):
        raise DataError(f"{name} has shape {array.shape}; it must be ({n_rows},), one {one} for each row")
    return array


def check_offset(offset: Any, n_rows: int, name: str = "offset", start: int = 0, *, drop: bool = False) -> FloatArray:
    """Return `offset`, of rows start, start + 1, ... of the data, as finite floats, shape (n_rows,).

    If `drop`, NaN may be among them, for rows that are left out later.
    """
    array = check_numbers_of_rows(offset, n_rows, name, "offset")
    bad = ~((np.abs(array) <= MAX_OFFSET) | (np.isnan(array) & drop))
    if bad.any():
        row = int(np.argmax(bad))
        raise RowError(
            f"{name} is {array[row]:g} in row {start + row}; offsets are finite parts of the linear predictor, at most "
            f"{MAX_OFFSET:g} in size: give log(exposure) for an exposure, drop rows of exposure 0, and drop or impute "
            "missing ones",
            start + row,
        )
    return np.ascontiguousarray(array)


def check_weights(
    weights: Any, n_rows: int, name: str = "weights", start: int = 0, *, zero: bool = False, drop: bool = False
) -> FloatArray:
    """Return `weights`, of rows start, start + 1, ... of the data, as positive finite floats, shape (n_rows,).

    If `zero`, 0 may be among them, and if `drop` NaN, for rows that are left out later.
    """
    array = check_numbers_of_rows(weights, n_rows, name, "weight")
    bad = ~((np.isfinite(array) & (array > 0.0)) | ((array == 0.0) & zero) | (np.isnan(array) & drop))
    if bad.any():
        row = int(np.argmax(bad))
        remedy = "rows of weight 0 are left out, others must be positive" if zero else "drop rows of weight 0"
        raise RowError(
            f"{name} is {array[row]:g} in row {start + row}; weights must be positive and finite: {remedy}", start + row
        )
    if array.size and np.nanmax(array, initial=0.0) > MAX_TOTAL_WEIGHT:
        row = int(np.nanargmax(array))
        raise RowError(
            f"{name} is {array[row]:g} in row {start + row}, above {MAX_TOTAL_WEIGHT:g}: {_TOO_HEAVY}", start + row
        )
    return np.ascontiguousarray(array)


def check_total_weight(total: float) -> None:
    """Raise if rows weigh more in all than `MAX_TOTAL_WEIGHT`."""
    if not total <= MAX_TOTAL_WEIGHT:
        raise DataError(f"weights sum to {total:g}, above {MAX_TOTAL_WEIGHT:g}: {_TOO_HEAVY}")
