"""The default: lossless where few rows are distinct, condensed for counts, calibrated elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from bayescore.coresets.aggregate import Aggregate
from bayescore.coresets.calibrated import Calibrated
from bayescore.coresets.condensed import Condensed
from bayescore.coresets.merge_reduce import MergeReduce
from bayescore.coresets.method import BuildResult, Method
from bayescore.coresets.multilevel import Multilevel
from bayescore.data.dataset import Dataset
from bayescore.models.families import Family
from bayescore.models.priors import Prior


@dataclass(frozen=True)
class Auto(Method):
    """The default: chooses a method by the rows, the family and the source; ``core.method`` says which.

    Numbers with normal noise are added up by `Aggregate`. Other data with at most `size` distinct rows (for "auto"
    1000, or 20 a column) are merged by it. Other rows with groups go to `Multilevel`. Counts go to `Condensed` where
    `size` is left out and the error that it expects is within the tolerance, as a pseudo-row of counts meets more of
    their likelihood than real rows do. All else goes to `Calibrated`, but an iterator, whose rows come once, to
    `MergeReduce`.

    `Condensed` is never chosen for labels. Its pseudo-rows are often fewer and as accurate, but ``core.index``,
    averages over rows and the pages of reports need rows of the data. Ask for ``method="condensed"`` where fewest rows
    matter.

    Parameters
    ----------
    prior : prior or dict of str to prior, default Normal(0, 4)
        As in `Calibrated`.
    tolerance : float, default 0.05
        As in `Calibrated`.
    """

    prior: Prior | Mapping[str, Prior] | None = None
    tolerance: float | None = None

    name: ClassVar[str] = "auto"
    one_pass: ClassVar[bool] = True
    sums: ClassVar[bool] = True
    size_options: ClassVar[tuple[str, ...]] = Calibrated.size_options

    def __post_init__(self) -> None:
        Calibrated(self.prior, self.tolerance)  # checks them

    def first_look(self, dataset: Dataset, seed: int) -> None:
        """Make the first pass as the method does that would be taken if columns were not discrete."""
        (Multilevel() if dataset.design.groups else Calibrated()).first_look(dataset, seed)

    def build(self, dataset: Dataset, size: int | None, seed: int, family: Family) -> BuildResult[Any]:
        """Build by the method that fits the rows."""
        if family.quadratic:
            if size is not None:
                raise TypeError(
                    f"size={size} is given, and method='aggregate', which 'auto' uses for family={family.name!r}, "
                    "takes none: it loses nothing with a row a column; leave it out"
                )
            return Aggregate().build(dataset, None, seed, family)
        if not dataset.rereadable:
            if self.given:
                raise TypeError(
                    f"{next(iter(self.given))!r} is not an option of method='merge_reduce', which 'auto' uses for an "
                    "iterator; leave it out, or pass data that can be read again"
                )
            return MergeReduce().build(dataset, size, seed, family)
        merged = Aggregate().within(dataset, self.draws(dataset, size))
        if merged is not None:
            return merged
        if not dataset.design.groups:
            if family.counts and size is None and "offset" not in dataset.design.names:  # that its file would have
                condensed = Condensed(self.prior, self.tolerance).build(dataset, size, seed, family)
                if condensed.caution is None:
                    return condensed
            return Calibrated(self.prior, self.tolerance).build(dataset, size, seed, family)
        if refused := ["size"] * (size is not None) + [name for name in self.given if name != "prior"]:
            raise TypeError(
                f"{refused[0]!r} is not an option of method='multilevel', which 'auto' uses for rows with groups that "
                "do not repeat; leave it out, or name a method"
            )
        return Multilevel(self.prior).build(dataset, None, seed, family)
