"""Checks that rows fit: names of columns, families, and the design of a posterior."""

from collections.abc import Sequence

from bayescore.data.coreset import Coreset
from bayescore.data.design import Design
from bayescore.data.sources.paired import described, response_of
from bayescore.listing import shown_apart
from bayescore.types import WeightedData
from bayescore.validation import DataError


def feature_names(data: WeightedData) -> tuple[str, ...]:
    """Return the names of the columns of X; beta_0, beta_1, ... if `data` has none."""
    names: Sequence[str] | None = getattr(data, "feature_names", None)
    return tuple(names) if names is not None else tuple(f"beta_{d}" for d in range(data.n_features))


def own_family(data: object, family: str | None, name: str = "data") -> str:
    """Return `family`, or by default that of the coreset `data`, the argument called `name`."""
    if not isinstance(data, WeightedData):
        kind = type(data).__name__
        raise TypeError(f"{name} is a {kind}; give a coreset from build_coreset, or all_rows(...) for all the rows")
    if family is not None:
        return family
    own: str | None = getattr(data, "family", None)
    if own is None:
        raise ValueError("family is missing, and the data name none; give one, such as family='logistic'")
    return own


def check_no_pseudo(data: WeightedData, argument: str) -> None:
    """Raise if there are pseudo-rows, which have no labels to predict."""
    if data.pseudo.any():
        raise DataError(
            f"{argument} has pseudo-rows, which stand for many rows: give rows of the data, such as "
            "all_rows(rows, design=core.design)"
        )


def check_flat(data: WeightedData, what: str) -> None:
    """Raise if rows have groups: `what` ignores their effects, on which pseudo-rows depend."""
    if data.group is None:
        return
    if data.pseudo.any():
        raise DataError(
            f"data have groups and pseudo-rows, whose offsets suppose the groups' effects; {what} leaves these out and "
            "would be of no model: use sample, bayescore.model, or weighted_potential(groups=)"
        )
    raise DataError(
        f"data have groups, whose effects {what} leaves out: use sample, bayescore.model, or "
        "weighted_potential(groups=); for a model without effects build the data without groups"
    )


def check_same_design(data: WeightedData, names: tuple[str, ...], design: Design | None, argument: str) -> None:
    """Raise unless the columns of `data` are those of a posterior with features `names` and design `design`."""
    if data.n_features != len(names):
        raise DataError(f"{argument} has {data.n_features} features, the posterior {len(names)}; use the same design")
    own = data.design.offset if isinstance(data, Coreset) else data.offset  # pseudo-rows have one of their own
    if design is not None and response_of(design.classes) == "numbers":
        own = design.offset  # what rows have are their responses
    if design is not None and (own is None) != (design.offset is None):
        theirs = "had none" if design.offset is None else f"had one, {design.offset!r}"
        raise DataError(
            f"{argument} has {'no' if own is None else 'an'} offset, and the posterior's rows {theirs}; give "
            "the same, 0 for none"
        )
    if not isinstance(data, Coreset):
        return
    if design is not None and design.classes not in (None, data.classes):
        raise DataError(
            f"{argument} has {described(data.classes)}, the posterior {described(design.classes)}: build it with "
            "all_rows(..., design=core.design), or labels, the second +1, with the same positive="
        )
    if data.feature_names != names:
        own, drawn = shown_apart(data.feature_names, names)
        raise DataError(
            f"{argument} has the features {own}, the posterior {drawn}; give the same columns in the same order"
        )
    if design is not None and data.design != design:
        raise DataError(
            f"{argument} has another design (intercept, centers or scales) than the posterior; build it with "
            "all_rows(..., design=core.design)"
        )
