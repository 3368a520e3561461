"""`METHODS`: every method of `build_coreset` by its name; methods from a name and options, and as JSON.

The default: lossless where few rows are distinct, condensed for counts, calibrated elsewhere.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from bayescore.coresets.aggregate import Aggregate
from bayescore.coresets.calibrated import Calibrated
from bayescore.coresets.condensed import Condensed, TooFarFromNormalError
from bayescore.coresets.merge_reduce import MergeReduce
from bayescore.coresets.method import BuildResult, Method
from bayescore.coresets.multilevel import Multilevel
from bayescore.coresets.single import SINGLE
from bayescore.data.dataset import Dataset
from bayescore.families import Family
from bayescore.priors import Prior
from bayescore.priors.by_name import given_from_dict, given_to_dict
from bayescore.priors.groups import PriorOfDesign
from bayescore.validation import check_choice


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
    prior : prior or dict of str to prior, default that of `fit`
        As in `Calibrated`.
    tolerance : float, default 0.05
        As in `Calibrated`.
    """

    prior: Prior | Mapping[str, Prior] | PriorOfDesign | None = None
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
                with suppress(TooFarFromNormalError):
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


METHODS: dict[str, type[Method]] = {"auto": Auto, **SINGLE, "merge_reduce": MergeReduce}


def listed() -> str:
    """Return the methods with the first line of their documentation, as a list of reStructuredText."""
    lines = ((name, kind, (kind.__doc__ or "").partition("\n")[0]) for name, kind in METHODS.items())
    return "\n".join(f"- ``{name!r}``, `{kind.__name__}`: {line}" for name, kind, line in lines)


def method_of(method: str | Method, options: Mapping[str, Any]) -> Method:
    """Return a method; a name is looked up, and takes the options. Raise if there is no such method or option."""
    if isinstance(method, Method):
        if options:
            raise TypeError(f"{next(iter(options))!r} is given beside method={method!r}; give it there")
        return method
    kind = METHODS[check_choice(method, "method", METHODS)]
    names = [field.name for field in fields(kind)]
    for name in options:
        if name not in names:
            takes = ", ".join(names) or "no options"
            raise TypeError(f"{name!r} is not an option of method={method!r}, which takes {takes}")
    return kind(**options)


def check_once(method: Method, standardize: bool) -> None:
    """Raise `ValueError` if a method, or standardising, needs rows more than once that come once."""
    if not method.one_pass or standardize:
        asked = "standardize=True" if method.one_pass else f"method={method.name!r}"
        fit = ", ".join(repr(name) for name, kind in METHODS.items() if kind.one_pass)
        raise ValueError(
            f"{asked} reads the rows more than once, and an iterator gives them once: the methods {fit} fit, with "
            "standardize=False; or give a callable that returns a fresh iterator each time, or a Parquet file"
        )


def method_to_dict(method: Method) -> dict[str, Any]:
    """Return name and options of a method as JSON values; raise `TypeError` if one of them cannot be written."""
    if METHODS.get(method.name) is not type(method):
        raise TypeError(f"{method!r} is not registered: a checkpoint could not be read back")
    options: dict[str, Any] = {}
    for name, value in method.given.items():
        if isinstance(value, Method):
            options[name] = {"method": method_to_dict(value)}
        elif isinstance(value, Prior | Mapping):
            options[name] = {"prior": given_to_dict(value)}
        elif isinstance(value, int | float | str | tuple | list):
            options[name] = value
        else:
            raise TypeError(f"{method.described}: a checkpoint cannot hold {name}; give an array or a word for it")
    return {"name": method.name, "options": options}


def method_from_dict(stored: Mapping[str, Any]) -> Method:
    """Return the method of `method_to_dict`; what does not fit raises one of many errors."""

    def option(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return method_from_dict(value["method"]) if "method" in value else given_from_dict(value["prior"])

    return method_of(stored["name"], {name: option(value) for name, value in stored["options"].items()})
