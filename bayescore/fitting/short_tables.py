"""Tables that print four digits of each number, so that they stand whole in a terminal of 80 columns."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd

_COLUMNS = 20  # pandas' own number, where there is no terminal


def short(number: float) -> str:
    """Return a number in four digits, or its whole part where that has more.

    >>> short(0.0123456), short(-2.3216), short(41234.5)
    ('0.01235', '-2.322', '41234')
    """
    return f"{number:.0f}" if 1e4 <= abs(number) < 1e7 else f"{number:.4g}"


class ShortTable(pd.DataFrame):
    """A data frame that prints short numbers, unless the user has set another format; what is made of it is plain.

    Of names so long that the table is wider than a terminal, columns go below each other; pandas would leave some out.

    >>> ShortTable({"mean": [0.0123456, -2.3216]})
         mean
    0 0.01235
    1  -2.322
    """

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        with _short_numbers():
            return super().__repr__()

    def _repr_html_(self) -> Any:
        with _short_numbers():
            return super()._repr_html_()  # type: ignore[misc]


@contextmanager
def _short_numbers() -> Iterator[None]:
    own, most = pd.get_option("display.float_format"), pd.get_option("display.max_columns")
    with pd.option_context("display.float_format", own or short, "display.max_columns", most or _COLUMNS):
        yield
