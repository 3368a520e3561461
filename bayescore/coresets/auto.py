"""The default: lossless where few rows are distinct, calibrated elsewhere."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from bayescore.coresets.aggregate import Aggregate
from bayescore.coresets.calibrated import Calibrated
from bayescore.coresets.merge_reduce import MergeReduce
from bayescore.coresets.method import BuildResult
from bayescore.coresets.multilevel import Multilevel
from bayescore.data.opened import Opened
from bayescore.types import Likelihood


@dataclass(frozen=True)
class Auto(Calibrated):
    """Merges identical rows where at most `size` are distinct (of "auto" 1000, or 20 a column); else it calibrates.

    Where rows have groups it is `Multilevel` instead. Of an iterator, whose rows come once, it is `MergeReduce`.
    ``core.method`` says which. The options are those of `Calibrated`.

    Rows are real rows: pseudo-rows (`Condensed`) are often fewer, and as accurate, but ``core.index``, averages over
    rows and the pages of reports rest on rows of the data. Ask for ``method="condensed"`` where fewest rows matter.
    """

    name: ClassVar[str] = "auto"
    one_pass: ClassVar[bool] = True

    def build(self, opened: Opened, size: int | None, seed: int, likelihood: Likelihood) -> BuildResult[Any]:
        """Build by the method that fits the rows."""
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        if not opened.again:
            given = [name for name, value in options.items() if value is not None]
            if given:
                raise TypeError(
                    f"{given[0]!r} is not an option of method={MergeReduce.name!r}, which 'auto' is where rows come "
                    "once; leave it out"
                )
            return MergeReduce().build(opened, size, seed, likelihood)
        merged = Aggregate().within(opened, self.draws(opened, size))
        if merged is None and opened.design.groups:
            given = [name for name, value in options.items() if value is not None and name != "prior"]
            if given := ["size"] * (size is not None) + given:
                raise TypeError(
                    f"{given[0]!r} is not an option of method={Multilevel.name!r}, which 'auto' is where rows with "
                    "groups do not repeat; leave it out, or name a method"
                )
            prior = None if self.prior is None else self.mode_prior
            return Multilevel(prior=prior).build(opened, None, seed, likelihood)
        return merged or Calibrated(**options).build(opened, size, seed, likelihood)
