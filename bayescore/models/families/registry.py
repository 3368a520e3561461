"""The families that there are, by name, and the door through which each of them is passed."""

import math
from itertools import pairwise

import numpy as np

from bayescore.data.passes.tiles import TILE
from bayescore.data.sources.paired import response_of
from bayescore.models.families.family import Family, Sized
from bayescore.types import FloatArray
from bayescore.validation import DataError, check_choice

FAMILIES: dict[str, Family] = {}
SIZED: dict[str, type[Sized]] = {}  # kinds of families with a size
COMPILED = ("rows", "derivatives", "higher")  # what kernels call

_NEAR = np.array([-3.0, -0.5, 0.0, 0.5, 3.0])  # where derivatives are compared with differences
_STEP = 1e-4  # of differences, whose error is about its square
_COUNTS = np.arange(20_000.0)  # whose probabilities add up to 1 where the mean is not above 2
_PARTS = ("log_p", "score", "curvature", "third")  # each the derivative of the one before, but for the curvature's sign


def register(family: Family) -> Family:
    """Make a family known by its name, in this process, and return it.

    Parameters
    ----------
    family : Family
        One with the contract of `bayescore.families.Family`.

    Returns
    -------
    Family
        The same.

    Raises
    ------
    TypeError
        If it is no `Family`, lacks compiled functions, or two of its class are not equal.
    ValueError
        If probabilities do not add up to 1, the mean of counts is not where their score is 0, or the density of numbers
        is not normal. If derivatives are not those of `log_p`, or not finite as far as the family reaches, compiled
        functions are not the formulas, or another family has its name.

    Notes
    -----
    Other processes, such as workers of Dask, must import the module that registers it. Of a kind of families with a
    size one is registered, and all are known.

    Examples
    --------
    >>> import bayescore as bc
    >>> bc.families.register(bc.families.Probit()).name  # again: that changes nothing
    'probit'
    """
    if not isinstance(family, Family):
        raise TypeError(
            f"family={family!r} is no Family; derive its class from bayescore.families.Family, or from "
            "Symmetric beside it"
        )
    name = family.name
    if isinstance(family, Sized) and not family.complete:
        raise ValueError(lacking(family, name))
    missing = [part for part in COMPILED if not hasattr(getattr(family, part, None), "py_func")]
    if missing:
        raise TypeError(f"family {name!r} lacks the compiled {', '.join(missing)}; see bayescore.families.Family")
    if type(family)(*family.given()) != family:
        raise TypeError(
            f"family {name!r} is not the same as another {type(family).__name__}(), and would be unknown to "
            "other processes; make its class a frozen dataclass without fields, but for the size of a Sized one"
        )
    known = find_family(name)
    if known not in (None, family):
        raise ValueError(f"family {name!r} is registered already, as {known!r}; choose another name")
    check = {"counts": _check_rates, "labels": _check_probabilities, "numbers": _check_density}
    check[family.response](family)
    for side in (1, -1):
        _check_side(family, side)
        _check_compiled(family, side)
    if isinstance(family, Sized):
        SIZED[family.kind] = type(family)
    else:
        FAMILIES[name] = family
    return family


def _check_probabilities(family: Family) -> None:
    """Raise unless exp(l+) is the mean and exp(l-) the rest."""
    mean = family.mean(_NEAR)
    for side, p in ((1, mean), (-1, 1.0 - mean)):
        own = np.exp(family.log_p(_NEAR, side))
        if not (gap := np.abs(own - p)).max() < 1e-9:
            worst = int(gap.argmax())
            raise ValueError(
                f"family {family.name!r}: exp(log_p(eta, {side})) is {own[worst]:g} at eta = {_NEAR[worst]:g}, but "
                f"mean(eta) {mean[worst]:g}; the probabilities of both sides must be those of one label"
            )


def _check_density(family: Family) -> None:
    """Raise unless l is the normal density's of sd `unit` on both sides, the mean eta, and draws are of that spread."""
    square = (_NEAR / family.unit) ** 2
    wanted = -0.5 * (square + math.log(2.0 * math.pi)) - math.log(family.unit)
    found = {
        "mean": (family.mean(_NEAR), _NEAR),
        "variance": (family.variance(_NEAR), np.full_like(_NEAR, family.unit**2)),
        **{f"log_p of side {side}": (family.log_p(_NEAR, side), wanted) for side in (1, -1)},
    }
    for part, (own, known) in found.items():
        if not np.allclose(own, known, rtol=1e-9):
            raise ValueError(
                f"family {family.name!r}: {part} is {own[0]:g} at eta = {_NEAR[0]:g}, and that of normal noise of its "
                f"unit {known[0]:g}; mend it"
            )


def _check_rates(family: Family) -> None:
    """Raise unless the link is log, a count of the mean has the score 0, and probabilities add up to 1."""
    mean = family.mean(_NEAR)
    total = mean * family.score(_NEAR, 1) + family.score(_NEAR, -1)
    if not (gap := np.abs(total) - 1e-9 * (1.0 + mean)).max() < 0.0:
        worst = int(gap.argmax())
        raise ValueError(
            f"family {family.name!r}: mean(eta) is {mean[worst]:g} at eta = {_NEAR[worst]:g}, but a count of that has "
            f"the score {total[worst]:g}, not 0; mend the mean or the sides"
        )
    if not np.allclose(mean, np.exp(_NEAR), rtol=1e-9):
        raise ValueError(
            f"family {family.name!r}: mean(eta) is {mean[0]:g} at eta = {_NEAR[0]:g}, not exp(eta); the link of counts "
            "is the logarithm"
        )
    at = _NEAR[:-1, None]
    log_p = _COUNTS * family.log_p(at, 1) + family.log_p(at, -1) + family.log_constant(_COUNTS, np.ones_like(_COUNTS))
    whole = np.exp(np.minimum(log_p, 1.0)).sum(axis=1)  # where it is wrong it may overflow
    if not (gap := np.abs(whole - 1.0)).max() < 1e-9:
        worst = int(gap.argmax())
        raise ValueError(
            f"family {family.name!r}: the probabilities of all counts add up to {whole[worst]:g} at eta = "
            f"{_NEAR[worst]:g}, not 1; mend log_constant"
        )
    p, move = np.exp(log_p), _COUNTS - mean[:-1, None]
    second, fourth = ((p * move**power).sum(axis=1) for power in (2, 4))
    for part, known in (("variance", second), ("excess_kurtosis", fourth / second**2 - 3.0)):
        own = getattr(family, part)(_NEAR[:-1])
        if not np.allclose(own, known, rtol=1e-6):
            raise ValueError(
                f"family {family.name!r}: {part} is {own[0]:g} at eta = {_NEAR[0]:g}, and that of its "
                f"probabilities {known[0]:g}; mend it"
            )


def _check_compiled(family: Family, side: int) -> None:
    """Raise unless the compiled functions give what the formulas of one side do."""
    eta, sides = np.linspace(_NEAR[0], _NEAR[-1], TILE), np.full(TILE, float(side))
    wanted = [getattr(family, part)(eta, side) for part in _PARTS]
    derivatives, log_p, score = np.empty((4, TILE)), np.empty(TILE), eta.copy()
    family.derivatives(eta.copy(), sides, derivatives, np.empty((3, TILE)), *family.given())
    family.rows(score, sides, log_p, *family.given())
    names = [*(f"derivatives' {part}" for part in _PARTS), "rows' log_p", "rows' score"]
    for name, own, known in zip(names, [*derivatives, log_p, score], [*wanted, *wanted[:2]], strict=True):
        if not (gap := np.abs(own - known) - 1e-7 * (1.0 + np.abs(known))).max() < 0.0:
            worst = int(gap.argmax())
            raise ValueError(
                f"family {family.name!r}: the compiled {name} of side {side} is {own[worst]:g} at eta = "
                f"{eta[worst]:.2g}, and the formula {known[worst]:g}; mend one of them"
            )


def _check_side(family: Family, side: int) -> None:
    """Raise unless the functions of one side belong together and are finite."""
    name, ends = family.name, np.array([-family.reach, family.reach])

    def values(part: str, eta: FloatArray) -> FloatArray:
        found: FloatArray = getattr(family, part)(eta, side)
        return -found if part == "curvature" else found

    for before, part in pairwise(_PARTS):
        slope = (values(before, _NEAR + _STEP) - values(before, _NEAR - _STEP)) / (2.0 * _STEP)
        own = values(part, _NEAR)
        if not (gap := np.abs(own - slope) - 1e-6 * (1.0 + np.abs(slope))).max() < 0.0:
            worst = int(gap.argmax())
            what = "minus the slope" if part == "curvature" else "the slope"
            raise ValueError(
                f"family {name!r}: {part}(eta, {side}) is not {what} of {before}: it differs by "
                f"{abs(own[worst] - slope[worst]):.2g} at eta = {_NEAR[worst]:g}"
            )
    for part in _PARTS:
        if not np.isfinite(values(part, ends)).all():
            raise ValueError(
                f"family {name!r}: {part}(eta, {side}) is not finite at eta = +-{family.reach:g}; mend its tails"
            )


def find_family(name: object) -> Family | None:
    """Return the family of that name, such as "logistic" or "negative_binomial(2.5)"; None if there is none.

    Raises `ValueError` if a size is missing, no number or out of range.
    """
    if not isinstance(name, str):
        return None
    kind, _, rest = name.strip().partition("(")
    if (own := SIZED.get(kind.strip())) is None:
        return FAMILIES.get(name)
    if not rest.strip(") "):
        if own.found and "(" not in name:
            return own()  # type: ignore[call-arg]
        raise ValueError(lacking(own, name))
    try:
        size = float(rest.removesuffix(")").strip().removeprefix(f"{own.number}=") if rest.endswith(")") else "")
    except ValueError:
        raise ValueError(
            f"family={name!r} must be written as '{own.kind}(2.5)', with its {own.number} as a number"
        ) from None
    return own(size)


def known_names() -> tuple[str, ...]:
    """Return what users may write for a family."""
    alone = [kind for kind, own in SIZED.items() if own.found]
    return (*FAMILIES, *alone, *(f"{kind}({own.number})" for kind, own in SIZED.items()))


def lacking(own: Sized | type[Sized], name: str) -> str:
    """Return what is wrong with a family of a kind that lacks its number."""
    return f"family={name!r} lacks its {own.number}: give it, as in '{own.kind}(2.5)'; {own.unknown}"


def check_exposure(family: Family, exposure: object) -> Family:
    """Return the family; raise if exposures are given to one of counts whose sides they do not weigh."""
    if exposure is not None and family.counts and not family.exponential:
        raise DataError(
            f"exposure is given, and {family.name!r} has none, as its variance is not in proportion to it: give "
            "log(exposure) as offset, or family='poisson'"
        )
    return family


def check_family(family: "str | Family", *, rows: object = None, seek: bool = False) -> Family:
    """Return the registered family of that name, or `family` itself if it is registered.

    Raises `DataError` if `rows` are a coreset of labels and the family takes counts, and so on; `ValueError` if it
    lacks its number, unless the caller will `seek` it.
    """
    if isinstance(family, Family):
        if find_family(family.name) != family:
            raise TypeError(f"family={family!r} is not registered; call bayescore.families.register first")
        known = family
    elif (found := find_family(family)) is not None:
        known = found
    else:
        known = FAMILIES[check_choice(family, "family", known_names())]
    if isinstance(known, Sized) and not (known.complete or seek):
        raise ValueError(lacking(known, known.name))
    classes = getattr(rows, "classes", None)
    if classes is not None and known.response != (has := response_of(classes)):
        raise DataError(
            f"family={known.name!r} takes {known.response}, and the coreset was built of {has}; give the "
            f"family that it was built for, or build it with family={known.name!r}"
        )
    return known
