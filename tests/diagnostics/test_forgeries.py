"""Right draws and parts of them are judged by what they are; forged ones are refused before any pass over the data.

Exact draws miss an identity in less than 1 of 1,000 certificates (`python -m benchmarks forgeries`); seeds are fixed.
"""

import pytest

from benchmarks.certificates.forgeries import FLAT, GROUPED, KINDS, trial


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["flat", "flat, 30 columns", "flat, beside a wall", "(1 | g), 60 groups", "(1 | g), 8 groups"]
    + [pytest.param(name, marks=pytest.mark.slow) for name in KINDS if "(1 | g), NUTS" in name or "+" in name],
)
def test_forged_draws_are_refused_and_right_ones_are_not(name):
    rows = trial(name, 0, **({"tune": 300} if KINDS[name].sampler == "nuts" else {}))  # it starts where it belongs
    made = {row["what"] for row in rows}
    assert made >= {*FLAT, "thinned", "cut", "reordered", "concatenated", "coef altered"}
    assert made >= {*GROUPED} or not KINDS[name].groups
    for row in rows:
        assert row["refused"] is row["forged"], row
        if row["level"] == "not certified" and not row["forged"]:
            assert "Too few draws" in row["text"], row
