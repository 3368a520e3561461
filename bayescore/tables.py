"""`Table`: a data frame of posterior figures that prints as many digits as the figures have.

A posterior mean is read to a part of its sd, so mean, sd and quantiles of a row are printed to the place of the second
significant digit of that row's sd: -3.917 with an sd of 0.069, and 0.03066 with one of 0.00045. Rows are parameters of
different units, and one number of decimals for all would print the first with five, or the second with none.
"""

import html
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import pandas as pd

from bayescore.limits import MAX_RHAT
from bayescore.types import FloatArray

_OF_DRAWS = re.compile(r"(?P<of>(?:corrected_)?)(?:mean|sd|median|[\d.]+(?:e-\d+)?%)")  # columns in units of an sd
_MOST_DECIMALS = 8  # of a number without an exponent
_LARGEST = 1e9  # number without an exponent
_ALIKE = 1e3  # times as large is the largest of numbers of one unit
_COLUMNS = 20  # pandas' default, where there is no terminal
_ROWS = 1000  # more than a terminal has lines


def to_four_digits(number: float) -> str:
    """Return a number to four significant digits, or to its whole part where that has more.

    >>> to_four_digits(0.0123456), to_four_digits(-2.3216), to_four_digits(41234.5)
    ('0.01235', '-2.322', '41,234')
    """
    return f"{number:,.0f}" if 1e4 <= abs(number) < _LARGEST else f"{number:.4g}"


def to_digits_of(number: float, sd: float) -> str:
    """Return a number to the place of the second significant digit of an sd; by `to_four_digits` if there is no sd.

    >>> to_digits_of(-3.91691, 0.06854), to_digits_of(0.030663, 0.0004479), to_digits_of(123456.7, 1234.5)
    ('-3.917', '0.03066', '123,457')
    """
    if not (math.isfinite(number) and math.isfinite(sd) and sd > 0.0):
        return to_four_digits(number)
    decimals = 1 - int(f"{sd:.1e}".partition("e")[2])
    if number == 0.0 and decimals > _MOST_DECIMALS:
        return "0"
    if decimals > _MOST_DECIMALS or abs(number) >= _LARGEST:
        digits = math.floor(math.log10(abs(number))) + decimals
        return f"{number:.{min(max(digits, 0), 3)}e}"
    return f"{number:z,.{max(decimals, 0)}f}"


def _format_of(column: str, values: FloatArray) -> Callable[[float], str]:
    """Return how a column without an sd is printed: numbers of like size with one number of decimals."""
    if column.startswith("ess"):
        return "{:,.0f}".format
    if column.startswith("rank"):
        return "{:.1f}".format
    if column == "r_hat":
        return lambda value: f"{value:.{3 if value > MAX_RHAT else 2}f}"
    sizes = np.abs(values[np.isfinite(values) & (values != 0.0)])
    if not len(sizes) or not 1e-4 <= sizes.max() < 1e4:
        return to_four_digits
    if _OF_DRAWS.fullmatch(column) and sizes.max() > _ALIKE * sizes.min():
        return to_four_digits
    decimals = 3 - math.floor(math.log10(sizes.max()))
    while decimals > 0 and all(float(f"{size:.{decimals - 1}f}") == float(f"{size:.{decimals}f}") for size in sizes):
        decimals -= 1
    return lambda value: f"{value:z,.{decimals}f}"


def rounded(frame: pd.DataFrame, most: int | None = None) -> pd.DataFrame:
    """Return a table's numbers as the text that is printed of them; other columns stay as they are.

    Parameters
    ----------
    frame : DataFrame
        Any. Without a column "sd" each column has four significant digits of its largest number.
    most : int, optional
        Rows at either end that are written; those between have empty text, for a reader who leaves them out.

    Returns
    -------
    DataFrame
        Of text where there were numbers with decimals.

    Examples
    --------
    >>> import pandas as pd
    >>> rounded(pd.DataFrame({"mean": [-3.91691, 0.030663], "sd": [0.06854, 0.0004479], "ess_bulk": [3271.4, 3610.0]}))
          mean       sd ess_bulk
    0   -3.917    0.069    3,271
    1  0.03066  0.00045    3,610
    """
    places = np.arange(len(frame))
    if most is not None and len(frame) > 2 * most:
        places = np.concatenate([places[:most], places[-most:]])
    # a figure, and where there are columns of several categories which one
    names = [column if isinstance(column, tuple) else (column,) for column in cast(Iterable[Any], frame.columns)]
    arrays = {tuple(map(str, name)): frame.iloc[:, d].to_numpy() for d, name in enumerate(names)}
    columns: list[Any] = []
    for d, (column, *of) in enumerate(tuple(map(str, name)) for name in names):
        values = frame.iloc[:, d]
        if values.dtype.kind != "f":
            columns.append(values.to_numpy(dtype=object))
            continue
        numbers, text = values.to_numpy(dtype=np.float64, na_value=math.nan), np.full(len(frame), "", dtype=object)
        match = _OF_DRAWS.fullmatch(column)
        sd = None if match is None else arrays.get((f"{match['of']}sd", *of), arrays.get(("sd", *of)))
        if sd is None or sd.dtype.kind != "f":
            write = _format_of(column, numbers[places])
            text[places] = ["NaN" if math.isnan(value) else write(value) for value in numbers[places]]
        else:
            pairs = zip(numbers[places], sd[places], strict=True)
            text[places] = ["NaN" if math.isnan(value) else to_digits_of(value, each) for value, each in pairs]
        columns.append(text)
    shown = pd.DataFrame(dict(enumerate(columns)), index=frame.index, dtype=object)
    shown.columns = frame.columns
    return shown


class Table(pd.DataFrame):
    """A data frame of posterior figures: only its print is rounded, and every value keeps its digits.

    Mean, sd and quantiles of a row are printed to the second significant digit of that row's sd, effective sample sizes
    as whole numbers, R-hat with two decimals (three where it is above 1.01), and other columns with four digits. If
    pandas' option ``display.float_format`` is set, that format is used instead. Columns that do not fit in the width of
    a terminal are printed below the others and are not left out.

    ``attrs["level"]`` is the level of the certificate of the draws; below a table that is "not certified", and below
    one whose spread is not the model's, a line says so. What pandas makes of a `Table` is a `Table` again; for a plain
    frame give it to ``pd.DataFrame``.

    Examples
    --------
    >>> from bayescore.tables import Table
    >>> table = Table({"mean": [-3.91691, 0.030663], "sd": [0.06854, 0.0004479]}, index=["Intercept", "age"])
    >>> table
                  mean       sd
    Intercept   -3.917    0.069
    age        0.03066  0.00045
    >>> float(table["mean"]["age"])
    0.030663
    """

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return Table

    def __repr__(self) -> str:
        with _all_columns():
            return "\n".join([repr(self._printed()), *self._notes()])

    def _repr_html_(self) -> Any:
        with _all_columns():
            text = self._printed()._repr_html_()  # type: ignore[operator]
        return text and "".join([text, *(f"<p>{html.escape(note)}</p>" for note in self._notes())])

    def _printed(self) -> pd.DataFrame:
        plain = pd.DataFrame(self)
        if pd.get_option("display.float_format") is not None:
            return plain
        most = pd.get_option("display.max_rows")
        return rounded(plain, most if most is None or most > 0 else _ROWS)

    def _notes(self) -> Iterator[str]:
        if self.attrs.get("level") == "not certified":
            some = "level" in self and (self["level"] != "not certified").any()
            yield f"{'rows that are ' if some else ''}not certified: do not use"
        if spread := self.attrs.get("spread"):
            yield f"spread: {spread}"


@contextmanager
def _all_columns() -> Iterator[None]:
    most: Hashable = pd.get_option("display.max_columns")
    with pd.option_context("display.max_columns", most or _COLUMNS):
        yield
