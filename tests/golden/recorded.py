"""Recorded fields of golden cases: files of arrays and of text, and what differs from them, in words and numbers.

Integers and booleans are compared exactly, floating-point numbers to a tolerance of the largest entry of their array,
or of their column (last axis) where an array of several axes is short enough to be kept whole.
Text is compared line by line: its words exactly, its numbers to `ROUNDING`. Those of text that people read may also be
off by one unit of their last digit, as a last bit may turn 0.125 into 0.12 or 0.13; fields named "about" are settings
and figures in full, and may not.
"""

import json
import re
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path

import numpy as np

from tests.golden.case import ROUNDING, Case, Fields

FOLDER = Path(__file__).with_name("recorded")
MOST = 400
"""Numbers of an array that are kept, integers apart; of a longer one every k-th, and `_waves` of all."""
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+−]?\d+)?(?!\w)")
LEAST = 1e-3
"""Least scale of a column, of the largest entry of its array: a column of zeros is zero but for rounding of others."""
_BETWEEN = " :: "  # the name of a case and that of a field
_SPELT = str.maketrans({"−": "-", ",": None})


def kept(value: np.ndarray | list[str]) -> np.ndarray | list[str]:
    """Return what is kept of a field: a thinned array where it is long, and `_waves` of it."""
    if isinstance(value, list):
        return value
    value = np.asarray(value)
    assert value.dtype.kind in "bif", f"a field is of type {value.dtype}; give numbers, or text as a list of lines"
    if value.size <= MOST or value.dtype.kind != "f":
        return value
    flat = value.ravel()
    return np.concatenate([flat[:: -(-flat.size // (MOST - 4))], _waves(flat)])


def _waves(flat: np.ndarray) -> np.ndarray:
    """Return mean, root mean square and two projections of all entries: no change or exchange leaves them all alone."""
    finite, n = np.where(np.isfinite(flat), flat, 0.0), np.arange(flat.size)
    return np.array(
        [
            finite.mean(),
            np.sqrt((finite**2).mean()),
            *(finite @ np.sin((n + 1.0) * step) / np.sqrt(flat.size) for step in (0.7, 1.9)),
        ]
    )


def load(file: str) -> dict[str, Fields]:
    """Return the fields of each case that a file has; none where there is no file."""
    found: dict[str, dict[str, np.ndarray | list[str]]] = {}
    if (FOLDER / f"{file}.npz").exists():
        with np.load(FOLDER / f"{file}.npz", allow_pickle=False) as arrays:
            for key in arrays.files:
                name, field = key.split(_BETWEEN)
                found.setdefault(name, {})[field] = arrays[key]
    if (FOLDER / f"{file}.json").exists():
        for name, fields in json.loads((FOLDER / f"{file}.json").read_text(encoding="utf-8")).items():
            found.setdefault(name, {}).update(fields)
    return found


def save(file: str, cases: dict[str, Fields]) -> None:
    """Write the fields of all cases of a file, of arrays as `kept`."""
    FOLDER.mkdir(exist_ok=True)
    ordered = [(name, field, cases[name][field]) for name in sorted(cases) for field in sorted(cases[name])]
    arrays = {f"{name}{_BETWEEN}{field}": value for name, field, value in ordered if not isinstance(value, list)}
    text: dict[str, dict[str, list[str]]] = {}
    for name, field, value in ordered:
        if isinstance(value, list):
            text.setdefault(name, {})[field] = value
    if arrays:
        np.savez_compressed(FOLDER / f"{file}.npz", **arrays)
    (FOLDER / f"{file}.json").write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def compared(case: Case, found: Fields, recorded: Fields) -> list[str]:
    """Return what moved, and by how much: a line for each field that did."""
    moved = [f"{field}: recorded, but not there any more" for field in recorded if field not in found]
    for field, value in found.items():
        if field not in recorded:
            moved.append(f"{field}: not recorded")
        elif isinstance(value, list) != isinstance(recorded[field], list):
            moved.append(f"{field}: text and numbers have changed places")
        elif isinstance(value, list):
            rounded = not field.endswith("about")
            moved += [f"{field}: {said}" for said in _text(value, recorded[field], rounded)]
        else:
            moved += [f"{field}: {said}" for said in _numbers(kept(value), recorded[field], case.tolerance)]
    return [f"{case.family}: {case.name}: {said}" for said in moved]


def _numbers(found: np.ndarray, recorded: np.ndarray, tolerance: float) -> Iterable[str]:
    if found.shape != recorded.shape:
        yield f"has shape {found.shape}, recorded {recorded.shape}"
        return
    if found.dtype.kind != recorded.dtype.kind:
        yield f"has type {found.dtype}, recorded {recorded.dtype}"
        return
    if found.dtype.kind != "f":
        differ = found != recorded
        if differ.any():
            first = np.unravel_index(int(differ.argmax()), found.shape)
            yield (
                f"{differ.sum()} of {found.size} entries differ, first {_place(first)}: {found[first]}, "
                f"recorded {recorded[first]}"
            )
        return
    usual = np.isfinite(found) & np.isfinite(recorded)
    odd = ~usual & ~((found == recorded) | (np.isnan(found) & np.isnan(recorded)))
    if odd.any():
        first = np.unravel_index(int(odd.argmax()), found.shape)
        yield f"{odd.sum()} entries are not finite, first {_place(first)}: {found[first]}, recorded {recorded[first]}"
    gap = np.abs(np.where(usual, found, 0.0) - np.where(usual, recorded, 0.0))
    scale = np.broadcast_to(_scale(np.abs(np.where(usual, recorded, 0.0))), found.shape)
    over = gap > tolerance * scale
    if not over.any():
        return
    worst = np.unravel_index(int(np.where(over, gap, -1.0).argmax()), found.shape)
    relative = gap[worst] / scale[worst] if scale[worst] else np.inf
    yield (
        f"{over.sum()} of {found.size} entries moved by up to {gap[worst]:.2g}, {relative:.2g} of "
        f"the largest entry (allowed {tolerance:.0e}); {_place(worst)}: {found[worst]:.12g}, "
        f"recorded {recorded[worst]:.12g}"
    )


def _scale(sizes: np.ndarray) -> np.ndarray:
    """Return the largest entry, of each column where there are several axes."""
    largest = sizes.max(initial=0.0)
    if sizes.ndim < 2:
        return largest
    return np.maximum(sizes.max(axis=tuple(range(sizes.ndim - 1)), initial=0.0), LEAST * largest)


def _place(index: tuple[np.intp, ...]) -> str:
    return f"at [{', '.join(map(str, index))}]"


def _text(found: list[str], recorded: list[str], rounded: bool) -> Iterable[str]:
    differ = [
        (line, own, old)
        for line, (own, old) in enumerate(zip_longest(found, recorded, fillvalue="(no line)"), 1)
        if not same_text(own, old, rounded)
    ]
    if differ:
        line, own, old = differ[0]
        count = f"{len(differ)} of {len(recorded)} lines differ, first line {line}"
        yield f"{count}:\n    now      {own}\n    recorded {old}"


def same_text(found: str, recorded: str, rounded: bool = True) -> bool:
    """Whether two lines have the same words, and the same numbers but for rounding: of the last digit if `rounded`."""
    if found == recorded:
        return True
    if NUMBER.sub("#", found) != NUMBER.sub("#", recorded):
        return False
    pairs = zip(NUMBER.findall(found), NUMBER.findall(recorded), strict=True)
    return all(_same_number(own, old, rounded) for own, old in pairs)


def _same_number(found: str, recorded: str, rounded: bool) -> bool:
    own, old = float(found.translate(_SPELT)), float(recorded.translate(_SPELT))
    if not (_fraction(found) or _fraction(recorded)):
        return own == old
    last = 1.001 * max(_unit(found), _unit(recorded)) if rounded else 0.0
    return abs(own - old) <= max(last, ROUNDING * abs(old), ROUNDING)  # the floor: figures whose exact value is 0


def _fraction(number: str) -> bool:
    return "." in number or "e" in number


def _unit(number: str) -> float:
    """Return one unit of the last digit."""
    mantissa, _, exponent = number.translate(_SPELT).partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
