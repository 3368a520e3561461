"""What a method of `build_coreset` is: a frozen dataclass whose fields are its options.

To add one, write a file like `uniform` and add its class to `coresets.single`. A method is a `Reducer`, for the nodes
of merge-and-reduce trees, if it has `reduce`. It is an `AnchoredReducer` if its rows meet totals at a point, the
anchor, and it can estimate the error of their score at other points.

What a method keeps of a stream: a state of bounded size, which absorbs blocks and goes to checkpoints as arrays.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, runtime_checkable

from bayescore.data.coreset import Shortfall
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design
from bayescore.families import Family
from bayescore.families.family import check_family
from bayescore.files import Arrays
from bayescore.priors import Prior
from bayescore.priors.by_name import DEFAULT
from bayescore.priors.groups import complete_prior, standard_prior
from bayescore.types import FloatArray, WeightedData
from bayescore.validation import check_integer, check_positive

DEFAULT_SIZE = 1000  # rows drawn where nothing says how many,


ROWS_PER_COLUMN = 20  # or so many for each column if that is more


DELTA = 0.05  # probability that an epsilon fails, where none is given


@dataclass(frozen=True)
class BuildInfo:
    """What a method was given, and what it found."""

    def params(self) -> dict[str, Any]:
        """Return the fields that are not None, nested info included, as ``core.params`` has them."""
        params: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, BuildInfo):
                params |= value.params()
            elif value is not None:
                params[field.name] = value
        return params


Info = TypeVar("Info", bound=BuildInfo)


@dataclass(frozen=True, eq=False)
class BuildResult(Generic[Info]):
    """Rows of a coreset, what is known about them, the method that made them, and a warning for the user.

    `shortfall` is what the rows miss at the mode of all rows, where a build ends with those derivatives.
    """

    rows: WeightedData
    info: Info
    method: "Method"
    caution: str | None = None
    shortfall: Shortfall | None = None


@dataclass(frozen=True)
class Method(ABC):
    """How rows are chosen and weighted.

    Attributes
    ----------
    name : str
        The name in `build_coreset` and on the command line.
    families : tuple of str, optional
        The likelihoods that it serves; None for all.
    one_pass : bool
        Whether it reads each row once only, so that an iterator is enough.
    takes_size : bool
        Whether it takes a number of rows.
    size_options : tuple of str
        Options that determine the size, and so exclude `size`.
    needs_mu : bool
        Whether its guarantee needs a finite complexity mu, which separable labels do not have.
    sums : bool
        Whether it adds up rows of numbers with normal noise, which other methods do not take.
    knows_groups : bool
        Whether its rows represent the effects of groups, too.
    keeps_curvature : bool
        Whether its rows have the curvature of all rows: columns that depend on each other in them do so in all.
    """

    name: ClassVar[str]
    families: ClassVar[tuple[str, ...] | None] = None
    one_pass: ClassVar[bool] = False
    takes_size: ClassVar[bool] = True
    size_options: ClassVar[tuple[str, ...]] = ()
    needs_mu: ClassVar[bool] = False
    sums: ClassVar[bool] = False
    knows_groups: ClassVar[bool] = False
    keeps_curvature: ClassVar[bool] = False

    @property
    def needs_overlap(self) -> bool:
        """Whether separable labels void a guarantee, so that a search for them follows."""
        return self.needs_mu

    @property
    def about_weak_mode(self) -> bool:
        """Whether rows of a stream are condensed about a mode under the default prior."""
        return False

    @property
    def given(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        # arrays are never of the type of a default, and not to be compared
        return {k: v for k, (v, default) in values.items() if type(v) is not type(default) or v != default}

    @property
    def described(self) -> str:
        """Its name, with the options given."""
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.given.items())})" if self.given else self.name

    def check(self, size: int | None, family: str) -> None:
        """Raise unless the method, with these options, goes with a size (None for "auto") and a likelihood it serves.

        Raises
        ------
        ValueError
            The message names the argument, its value and the remedy.
        """
        if size is None:
            return
        if not self.takes_size:
            raise ValueError(f"method={self.name!r} keeps what it must and takes no size; size={size!r} was given")
        for name in self.size_options:
            if (value := getattr(self, name)) is not None:
                raise ValueError(f"size={size} and {name}={value} are both given; give one of them")

    def draws(self, dataset: Dataset, size: int | None) -> int:
        """Return the number of rows to draw, for "auto" no more than there are."""
        if size is not None:
            return size
        default = max(DEFAULT_SIZE, ROWS_PER_COLUMN * dataset.n_features)
        return min(dataset.scan.n_rows, default) if dataset.rereadable else default

    def check_size(self, size: int, n_features: int) -> None:
        """Raise `ValueError` if `size` rows cannot stand for rows of so many columns."""
        return

    def named(self, design: Design) -> Self:
        """Return the method for the columns of a design: its prior, or the default one, becomes one prior."""
        if "prior" not in {field.name for field in fields(self)}:
            return self
        prior, has_sds = self.prior, design.given_others is not None  # type: ignore[attr-defined]
        if callable(prior):
            named_prior = prior(design)
        elif isinstance(prior, Mapping) or (prior is None and has_sds):
            named_prior = complete_prior(prior, design.names, lambda: standard_prior(design) if has_sds else DEFAULT)
        else:
            return self
        return replace(self, prior=named_prior)  # type: ignore[call-arg]

    def first_look(self, dataset: Dataset, seed: int) -> None:
        """Make the first pass over raw rows that can be read again; a method may take more from it than their scan."""
        _ = dataset.scan

    @abstractmethod
    def build(self, dataset: Dataset, size: int | None, seed: int, family: Family) -> BuildResult[Any]:
        """Choose and weigh rows.

        Parameters
        ----------
        dataset : Dataset
            The rows, with their `scan` unless they can be read only once.
        size : int, optional
            Rows to draw; None for "auto".
        seed : int
            Seed of all that is random.
        family : Family
            One that the method serves.
        """


def check_serves(method: Method, family: str, methods: Mapping[str, type[Method]], argument: str = "method") -> None:
    """Raise unless a method serves a likelihood; the message names those of `methods` that do."""
    if check_family(family, seek=True).quadratic and not method.sums:
        fit = [kind.name for kind in methods.values() if kind.sums]
        raise ValueError(
            f"{argument}={method.name!r} chooses rows, of labels or counts, and a few sums say all of "
            f"family={family!r}: use {' or '.join(map(repr, fit)) or 'stream(method=None)'}"
        )
    if method.families is None or family in method.families:
        return
    fit = [kind.name for kind in methods.values() if kind.families is None or family in kind.families]
    raise ValueError(
        f"{argument}={method.name!r} bounds the {' or '.join(method.families)} likelihood only; "
        f"family={family!r}: use {' or '.join(map(repr, fit))}"
    )


def check_enough(size: int | None, n_rows: int) -> None:
    """Raise if `size` exceeds the number of rows, which a stream knows only at its end."""
    if size is not None:
        check_integer(size, "size", low=1, high=n_rows, why=", the rows of the data")


def check_at_least_one(value: object, name: str) -> float:
    """Return a number that is no less than 1, as mu and ratios of weights are."""
    if not (number := check_positive(value, name)) >= 1.0:
        raise ValueError(f"{name}={number:g} must be at least 1, as for all data")
    return number


def check_epsilon(method: Any, *others: str, below: float = 1.0) -> None:
    """Raise unless epsilon and delta are in range, and options that go with epsilon only are given with it."""
    for name in others:
        if (value := getattr(method, name)) is not None and method.epsilon is None:
            raise ValueError(f"{name}={value} is given without epsilon; give both, or a size")
    for name in ("epsilon", "delta"):
        if (value := getattr(method, name)) is not None:
            object.__setattr__(method, name, check_positive(value, name, below=below))


# covariance, shape (D, D), of the error at the second point of the score of rows that meet totals at the first
ScoreError = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class ReduceRequest:
    """A size, and what else a reducer may need."""

    size: int  # rows to keep at most
    seed: int
    family: Family
    delta: float  # probability that epsilon may fail
    anchor: FloatArray | None = None  # shape (D,), where anchored rows meet the totals; None for the rows' own mode
    share: float = 1.0  # share of these rows in those whose mode the anchor is


@dataclass(frozen=True, eq=False)
class ReduceResult:
    """Fewer rows in place of others, and the error of that."""

    rows: WeightedData
    loss: float = math.nan  # epsilon; for anchored rows the largest whitened score that they miss, in posterior sds
    radius: float = math.inf  # of the ball of coefficients that epsilon holds on
    anchor: FloatArray | None = None  # shape (D,), where anchored rows meet the totals
    kept: bool = False  # whether all rows were kept, as there were no more than asked for
    lost: FloatArray | None = None  # shape (D, D), `drift.remainder_loss`: covariance of the score missed elsewhere
    shortfall: Shortfall | None = None  # what the rows miss at the anchor; None if all were kept


@runtime_checkable
class Reducer(Protocol):
    """A method that can reduce weighted rows, which may be a coreset themselves."""

    def check_size(self, size: int, n_features: int) -> None:
        """Raise `ValueError` if `size` rows cannot stand for rows of so many columns."""

    def reduce(self, rows: WeightedData, request: ReduceRequest) -> ReduceResult:
        """Return fewer rows in place of `rows`."""


@runtime_checkable
class AnchoredReducer(Reducer, Protocol):
    """A reducer whose rows meet totals at a point near the mode of all rows so far; a tree keeps that point."""

    def mode_prior(self) -> Prior:
        """Return the prior under which modes are found."""

    def score_error(self, rows: WeightedData, family: Family, lost: FloatArray | None) -> ScoreError:
        """Return the covariance of what the score of `rows` misses; `lost` is that of `ReduceResult`."""

    def build(self, dataset: Dataset, size: int | None, seed: int, family: Family) -> Any:
        """Return a coreset whose info has `mean_error` and `sd_error`: the answer of the tree."""


_PARTS = ("X", "y", "weights", "index")


class StreamState(Protocol):
    """All that is kept of the rows so far; it never changes, so that an interrupt leaves a stream as it was."""

    def absorbed(self, block: WeightedData) -> Self:
        """Return the state with a canonical block more."""

    def answer(self, rest: WeightedData | None) -> BuildResult[Any]:
        """Return the coreset of the rows absorbed and of the rest, fewer rows than a block."""

    def to_arrays(self) -> Arrays:
        """Return the state as arrays."""

    def from_arrays(self, arrays: Arrays) -> Self:
        """Return the state of `to_arrays`, given that before the first row."""


@runtime_checkable
class Streamed(Protocol):
    """A method that takes rows in blocks, as they come."""

    def stream_block(self, size: int, n_features: int) -> int:
        """Return the rows of a canonical block."""

    def begin(self, size: int, design: Design, seed: int, family: str) -> StreamState:
        """Return the state before the first row; `design` has the names of grouping factors, not yet all levels."""


def rows_to_arrays(name: str, rows: WeightedData) -> Arrays:
    """Return rows as arrays whose names begin with `name`."""
    parts = {part: getattr(rows, part) for part in (*_PARTS, "offset", "group")}
    return {f"{name}_{part}": array for part, array in parts.items() if array is not None}


def rows_from_arrays(name: str, arrays: Arrays) -> WeightedData:
    """Return the rows of `rows_to_arrays`."""
    offset, group = arrays.get(f"{name}_offset"), arrays.get(f"{name}_group")
    return WeightedData(*(arrays[f"{name}_{part}"] for part in _PARTS), offset=offset, group=group)


def check_stored(arrays: Arrays, n_columns: int, n_groups: int) -> None:
    """Raise `ValueError` if rows of a checkpoint do not fit each other, the columns or the grouping factors."""
    for name in (name.removesuffix("_X") for name in arrays if name.endswith("_X")):
        rows = rows_from_arrays(name, arrays)
        offset = rows.y if rows.offset is None else rows.offset
        parts = {part.shape for part in (rows.y, rows.weights, rows.index, offset)}
        if rows.X.shape != (len(rows.y), n_columns) or len(parts) != 1:
            raise ValueError
        if (() if rows.group is None else rows.group.shape) != ((len(rows.y), n_groups) if n_groups else ()):
            raise ValueError
