"""Numbers as people read them: as many digits as their Monte Carlo error allows."""

import math


def number(value: float | None, digits: int = 3) -> str:
    """Return `value` with `digits` significant digits, no exponent where a few more digits do; a dash if missing."""
    if value is None or math.isnan(value):
        return "–"
    if value == 0.0 or not 1e-4 <= abs(value) < 1e7:
        return f"{value:.{digits}g}".replace("-", "−")
    decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    return f"{value:,.{decimals}f}".replace("-", "−")


def with_error(value: float, mcse: float, *, signed: bool = False, digits: int = 2) -> tuple[str, str]:
    """Return `value` and its standard error, both to `digits` significant digits of the error.

    The error is empty, and the value has three significant digits, where the error is missing or zero.
    """
    if not (math.isfinite(mcse) and math.isfinite(value) and mcse > 0.0):
        return number(value), ""
    decimals = digits - 1 - math.floor(math.log10(mcse))
    if decimals > 6 or abs(value) >= 1e7:
        return f"{value:{'+' if signed else ''}.3g}".replace("-", "−"), f"{mcse:.{digits}g}"
    decimals = max(decimals, 0)
    return f"{value:{'+' if signed else ''}z,.{decimals}f}".replace("-", "−"), f"{mcse:,.{decimals}f}"
