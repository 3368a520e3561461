"""`Intake`: checks rows that come in blocks, and knows after each block what the blocks so far have shown.

Until all blocks are known, signs of labels and codes of groups follow the order of their first occurrence.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from bayescore.data.design import Design, Grouping
from bayescore.data.factors import Selection
from bayescore.data.labels import signed_labels, sorted_labels, two_classes
from bayescore.data.passes.exact import exact_weight, total_weight
from bayescore.data.passes.scan import check_reach
from bayescore.data.sources.groups import Grouper, groupers_of
from bayescore.data.sources.paired import BINOMIAL, LABELS, PAIRED, Paired
from bayescore.data.sources.roles import NO_WEIGHTS, OFFSET, Roles
from bayescore.data.sources.row_filter import without_left_out
from bayescore.data.sources.streaming_levels import beside_rows, coded_table, group_codes, recoded
from bayescore.data.sources.survey import Seen, Survey, labels_of, merged
from bayescore.data.sparse import check_dense
from bayescore.data.tables import is_table
from bayescore.listing import shown_apart
from bayescore.types import LabelArray, WeightedData
from bayescore.validation import DataError, check_aligned, check_finite, check_offset, check_weights


class Block(NamedTuple):
    """Rows as users give them, None for what they leave out; `groups` may also be columns of a table `X`."""

    X: Any
    y: Any
    weights: Any = None
    offset: Any = None
    beside: Any = None  # trials, or the exposure of counts
    groups: Any = None


@dataclass(frozen=True)
class Intake:
    """What is known of the blocks so far.

    Until both labels are known, the first is -1 and the second +1. The first block must have both where the sign
    matters: with offsets, which a mirrored posterior has of the other sign, or if the family is not symmetric.
    """

    names: tuple[str, ...] | None = None
    survey: Survey = field(default_factory=Survey)
    n_blocks: int = 0
    n_rows: int = 0  # of positive weight
    weight: int = 0  # see `exact_weight`
    offset: str | None = None
    exposure: str | None = None
    groups: tuple[str, ...] = ()
    selection: Selection | None = None  # tables may have columns of text; codes of unknown levels are 0
    positive: Any = None
    group_columns: tuple[str, ...] = ()  # columns of blocks that are tables
    symmetric: bool = True  # whether the family is
    response: str = LABELS  # what responses are, as the family says
    weighted: bool = False  # whether some block has weights

    @classmethod
    def of(cls, response: str, classes: Sequence[Any] = (), **known: Any) -> Self:
        """Return an intake of no blocks, for labels, maybe of known classes, the second +1, counts or numbers."""
        if (paired := PAIRED.get(response)) is not None:
            classes, known = paired.classes, {**known, "response": response, "symmetric": False}
        return cls(survey=Survey(labels=Seen.of(classes)), **known)

    label: ClassVar[str] = "y"  # name of the labels

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels in the order of their first occurrence, those of one block in their own order."""
        return tuple(self.survey.labels.values)

    @property
    def classes(self) -> tuple[Any, Any]:
        """The two labels, `positive` or else the second in their order being +1.

        Of a family whose sides differ the first block settles which: later blocks cannot mirror what was reduced.
        """
        if not self.symmetric and len(self.labels) == 2:
            return self.labels[0], self.labels[1]
        return self.survey.classes("y", self.positive)

    @property
    def weight_total(self) -> float:
        """Total weight of the rows."""
        return total_weight([self.weight])

    @property
    def groupings(self) -> tuple[Grouping, ...]:
        """The grouping factors, with their levels so far."""
        return tuple(by.grouping for by in groupers_of(self.survey, self.groups))

    def design(self, *, intercept: bool = False) -> Design:
        """Return the design of the raw features, with the levels of groups so far."""
        assert self.names is not None
        known = self.names, intercept
        found = Design(*known, offset=self.offset, exposure=self.exposure, groups=self.groupings)
        return found.with_weights() if self.weighted else found

    @property
    def sign(self) -> int:
        """-1 where +1 is the label that came first, and rows are mirrored in the end."""
        return 1 if self.classes[1] == self.labels[1] else -1

    def settled(self, rows: WeightedData) -> WeightedData:
        """Return rows of these blocks with +1 for the second class, and codes of groups in their order."""
        rows = self.recoded(rows, groupers_of(self.survey, self.groups))
        return rows if self.sign > 0 else rows.mirrored(-1)

    def recoded(self, rows: WeightedData, known: Sequence[Grouper]) -> WeightedData:
        """Return rows of these blocks with the codes of groups whose levels are known."""
        if rows.group is None:
            return rows
        return replace(rows, group=recoded(rows.group, [self.survey.levels[name] for name in self.groups], known))

    def take(self, block: Block) -> tuple["Intake", WeightedData]:
        """Return what is known after another block, and the block as weighted rows of raw features."""
        where, start = f"block {self.n_blocks}", self.survey.n_rows
        parts = block._asdict()
        parts["exposure" if self.response == "counts" else "trials"] = parts.pop("beside")
        check_aligned(**{f"{where}: {name}": part for name, part in parts.items()})
        X, y, weights, offset, second, groups = block
        paired = PAIRED.get(self.response, BINOMIAL if second is not None else None)
        if self.response == "numbers":
            Roles(response=self.response, offset=offset, trials=second)  # refuses them
        selected = () if self.selection is None else self.selection.names or ()
        X, beside = beside_rows(X, groups, self.group_columns, where, selected)
        levels: dict[str, Seen] = {}
        if self.selection is not None and is_table(X):
            _check_once([str(name) for name in getattr(X, "columns", ())], where)
            X, levels = coded_table(X, self.selection, start, where)
        matrix = check_dense(X, f"{where}: X")
        names = self._names_of(X, matrix.shape[1], where)
        raw = np.array(matrix, dtype=np.float64, order="C")  # rows wait here while the caller may reuse the array
        check_finite(raw, names, 0, where)
        check_reach(raw.min(axis=0), raw.max(axis=0), names, where)
        n = len(raw)
        w = np.ones(n) if weights is None else check_weights(weights, n, f"{where}: weights", zero=True).copy()
        o = None if offset is None else check_offset(offset, n, f"{where}: offset").copy()
        if self.n_blocks and (o is None) != (self.offset is None):
            had = "no" if o is None else "an"
            raise DataError(f"{where} has {had} offset, unlike the blocks before it; give 0 for none")
        if self.weighted and weights is None:
            raise DataError(f"{where}: {NO_WEIGHTS}")
        known_groups = self.groups if self.n_blocks else None
        codes, own = group_codes(beside, known_groups, self.survey, n, where)
        named, pair = (f"{where}: y", f"{where}: {'' if paired is None else paired.beside}"), None
        if paired is None:
            signs, labels = self._signs(y, n, named[0])
        else:
            pair = paired.read(y, second, named, n)
            signs, labels = np.ones(n, dtype=np.int8), self._counted(paired, where)
        survey = merged([self.survey, Survey(n, labels, levels | own, bool((w == 0.0).any()))], tuple(own))
        if (o is not None or not self.symmetric) and len(survey.labels.values) < 2:
            why = "the two sides of the family differ, and" if o is None else "with offsets"
            raise DataError(
                f"{where}: all labels are {next(iter(labels.values))!r}, and {why} it must be known which one "
                "is +1: begin with a block of both, or name them as classes="
            )
        rows = WeightedData(raw, signs, w, np.arange(start, start + n), offset=o, group=codes)
        if paired is not None and pair is not None:
            rows = paired.rows(rows, pair, named, 0, drop=False)
        rows = without_left_out(rows, drop=False)
        known = replace(
            self,
            names=names,
            survey=survey,
            n_blocks=self.n_blocks + 1,
            n_rows=self.n_rows + len(rows),
            weight=self.weight + exact_weight(rows.weights),
            offset=None if o is None else OFFSET,
            exposure="exposure" if self.response == "counts" and second is not None else self.exposure,
            groups=tuple(own),
            weighted=self.weighted or weights is not None,
        )
        return known, rows

    def _names_of(self, X: Any, n_columns: int, where: str) -> tuple[str, ...]:
        names = tuple(str(name) for name in getattr(X, "columns", (f"x{d}" for d in range(n_columns))))
        _check_once(names, where)
        if self.names is None or names == self.names:
            return names
        if len(names) != len(self.names):
            raise DataError(
                f"{where} has {len(names)} columns, the blocks before it {len(self.names)}; give the same columns in "
                "every block, or begin anew"
            )
        own, before = shown_apart(names, self.names)
        raise DataError(
            f"{where} has the columns {own}, the blocks before it {before}; give the same columns in the same order"
        )

    def _signs(self, y: Any, n_rows: int, name: str) -> tuple[LabelArray, Seen]:
        """Return the labels as signs, -1 for the first that occurred, and the labels."""
        labels, own = labels_of(y, n_rows, name)
        if own.missing:
            raise DataError(f"{name} has missing labels; drop those rows")
        known = self.survey.labels + Seen.of(sorted_labels(own.values, name), own.order)
        two = tuple(known.values)[:2]
        if len(two) == 1:
            return np.full(n_rows, np.int8(-1)), Seen.of(two, own.order)
        ordered = two_classes(two, name, self.positive, known.order)
        two = two if self.labels else ordered
        return signed_labels(labels, two, 0, name), Seen.of(two, own.order)

    def _counted(self, paired: Paired, where: str) -> Seen:
        """Return the labels of a response of two numbers."""
        if self.labels not in ((), paired.classes, paired.classes[:1]):
            raise DataError(
                f"{where} has trials, and blocks before it the label {self.labels[-1]!r}; give trials in each"
            )
        return Seen.of(paired.classes)

    def to_dict(self) -> dict[str, Any]:
        """Return what is known of the blocks of a stream as plain JSON values."""
        own = {
            name: getattr(self, name)
            for name in ("names", "n_blocks", "n_rows", "weight", "offset", "exposure", "groups", "weighted")
        }
        return {**own, "survey": self.survey.to_dict()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any], *, like: "Intake") -> Self:
        """Rebuild an intake from `to_dict`'s value, for a family `like` another's."""
        own: dict[str, Any] = {"names": tuple(fields["names"]), "groups": tuple(fields["groups"])}
        own |= {"symmetric": like.symmetric, "response": like.response}
        return cls(**{**fields, **own, "survey": Survey.from_dict(fields["survey"])})


def _check_once(names: Sequence[str], where: str) -> None:
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise DataError(f"{where} has several columns named {twice!r}; rename them")
