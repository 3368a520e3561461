"""`DesignedIntake`: opens rows that come in blocks by a formula, or the design of other rows.

A block is whatever `build_coreset` takes. The first one tells levels, knots and centres, as all rows would; later ones
are opened in that design. A group that no block had before is added to it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.design import Design, Grouping
from bayescore.data.designed import open_designed, open_in
from bayescore.data.formulas.design import read_design
from bayescore.data.passes.exact import total_weight
from bayescore.data.source import Source
from bayescore.data.sources.blocks import LABEL
from bayescore.data.sources.intake import Block
from bayescore.data.sources.paired import LABELS
from bayescore.types import NO_ROW, WeightedData
from bayescore.validation import DataError, OneOnlyError


@dataclass(frozen=True, eq=False)
class DesignedIntake:
    """What is known of the blocks so far: the design, with their classes, and how many rows there were.

    `roles` are arguments of `open_designed`, such as the names of columns.
    """

    roles: Mapping[str, Any]
    formula: str | None = None
    response: str = LABELS
    design: Design | None = None
    label: str = LABEL
    n_blocks: int = 0
    n_rows: int = 0  # of positive weight
    n_given: int = 0  # those of weight 0 and those left out too
    weight: int = 0  # see `exact_weight`
    sign: int = field(default=1, init=False)  # labels have their sign from the first block on

    @property
    def classes(self) -> tuple[Any, Any]:
        """The two labels, the second +1."""
        assert self.design is not None
        assert self.design.classes is not None
        return self.design.classes

    labels = classes

    @property
    def weight_total(self) -> float:
        """Total weight of the rows."""
        return total_weight([self.weight])

    @property
    def groupings(self) -> tuple[Grouping, ...]:
        """The grouping factors, with their levels so far."""
        return () if self.design is None else self.design.groups

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return self.design is not None and self.design.weighted

    def settled(self, rows: WeightedData) -> WeightedData:
        """Return rows of these blocks with their final labels and codes, which they have."""
        return rows

    def take(self, block: Block) -> tuple["DesignedIntake", Iterator[WeightedData]]:
        """Return what is known after another block, whose rows are checked, and the rows in the design."""
        own = block._asdict()
        own["exposure" if self.response == "counts" else "trials"] = own.pop("beside")
        data, y = own.pop("X"), own.pop("y")
        roles = {**self.roles, **{name: value for name, value in own.items() if value is not None}}
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
        known = replace(
            self,
            design=design,
            label=self.label if self.n_blocks else dataset.rows.label,
            n_blocks=self.n_blocks + 1,
            n_rows=self.n_rows + scan.n_rows,
            n_given=self.n_given + getattr(dataset.rows, "n_given", dataset.source.n_rows),
            weight=self.weight + scan.weight,
        )
        return known, _numbered_from(dataset.blocks(), self.n_given)

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
        """Return what is known, but for the design's columns, as plain JSON values."""
        assert self.design is not None
        names = ("formula", "label", "n_blocks", "n_rows", "n_given", "weight")
        roles = {name: value for name, value in self.roles.items() if name != "positive"}  # the design has the classes
        own = {"roles": roles, "classes": list(self.classes), "design_roles": dict(self.design.roles)}
        return {**{name: getattr(self, name) for name in names}, **own}

    @classmethod
    def from_dict(cls, fields: dict[str, Any], design: dict[str, Any], *, response: str) -> Self:
        """Rebuild an intake from `to_dict`'s value and that of the design, for responses of a kind."""
        own = dict(fields)
        classes, by = own.pop("classes"), own.pop("design_roles")
        known = replace(read_design(design), classes=(classes[0], classes[1]), roles=tuple(by.items()))
        return cls(**own, design=known, response=response)


def _numbered_from(blocks: Iterable[WeightedData], start: int) -> Iterator[WeightedData]:
    """Yield blocks whose rows are numbered from `start` on."""
    for block in blocks:
        index = block.index.copy()
        index[index != NO_ROW] += start
        yield replace(block, index=index)
