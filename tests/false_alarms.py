"""Stated false-alarm rates: every test marked `statistical` has one, and all of them together stay below a limit."""

from collections.abc import Iterable

import pytest

MOST = 1e-3  # of all statistical tests together: one run in a thousand fails although all is right
RATES = pytest.StashKey[dict[str, float]]()


def stated_rates(items: Iterable[pytest.Item]) -> dict[str, float]:
    """Return the rate of each statistical test (of each of its parametrised cases) by its id; an error without one."""
    rates = {}
    for item in items:
        mark = item.get_closest_marker("statistical")
        if mark is None:
            continue
        rate = mark.kwargs.get("rate")
        if mark.args or set(mark.kwargs) != {"rate"} or not isinstance(rate, float) or not 0.0 < rate < MOST:
            raise pytest.UsageError(
                f"{item.nodeid} is marked statistical{mark.args or ''} with rate={rate!r}: state its false-alarm rate, "
                f"between 0 and {MOST:g}, as @pytest.mark.statistical(rate=1e-6)"
            )
        rates[item.nodeid] = rate
    return rates
