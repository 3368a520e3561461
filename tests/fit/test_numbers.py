"""Fits of numbers by their sums alone: averages that are refused, and updates whose default prior goes by all rows."""

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.validation import DataError
from tests.counted import QUIET

FAMILY = "normal(2)"


def numbers(n=600, seed=0):
    """Return rows whose responses are about 100."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {"a": rng.normal(3.0, 2.0, n), "d": rng.choice(["phone", "tablet"], n), "g": rng.integers(0, 6, n)}
    )
    eta = 100.0 + 0.7 * rows["a"] - 2.0 * (rows["d"] == "tablet") + rng.normal(size=6)[rows["g"]]
    return rows.assign(y=eta + rng.normal(0.0, 2.0, n))


ROWS = numbers()


def fitted(formula, rows, family=FAMILY, **others):
    return bc.fit(formula, rows, family=family, random_state=1, **others, **QUIET)


# -------------------------------------------------------------------------------------------------------- without rows


def of_coreset(formula, _folder):
    return fitted(bc.build_coreset(ROWS, formula=formula, family=FAMILY, **QUIET), None, None)


def of_stream(formula, _folder):
    stream = bc.stream(formula=formula, family=FAMILY)
    for part in (ROWS[:400], ROWS[400:]):
        stream.partial_fit(part)
    return fitted(stream.coreset(), None, None)


def read(formula, folder):
    fitted(formula, ROWS).save(folder / "fit")
    return bc.read_fit(folder / "fit", **QUIET)


def of_draws(formula, _folder):
    core = bc.build_coreset(ROWS, formula=formula, family=FAMILY, **QUIET)
    return bc.Fit.of_draws(bc.sample(core, draws=1500, random_seed=1, **QUIET), core, **QUIET)


def updated(formula, _folder):
    return fitted(formula, ROWS[:400]).update(ROWS[400:], **QUIET)


FLAT, SLOPES = "y ~ a + d", "y ~ a + d + (1 + a | g)"
WAYS = [(made, FLAT) for made in (of_coreset, of_stream, read, of_draws, updated)]


@pytest.mark.parametrize(("made", "formula"), [*WAYS, (of_coreset, SLOPES), (updated, SLOPES)])
def test_averages_are_not_of_the_rows_of_sums(made, formula, tmp_path):
    fit = made(formula, tmp_path)
    said = r"pseudo-rows, which tell nothing of the rows' columns; .* data=rows, .* fit\.update\(data=rows\)"
    for ask in (
        fit.average_predictions,
        lambda: fit.average_predictions(by="d"),
        lambda: fit.comparisons("d"),
        lambda: fit.slopes("a"),
        lambda: fit.summary(scale="response"),
        lambda: fit.plot("a"),
        fit.check,
    ):
        with pytest.raises(DataError, match=said):
            ask()
    averages = fit.average_predictions(by="d", data=ROWS).set_index("d")["mean"]
    np.testing.assert_allclose(averages, ROWS.groupby("d")["y"].mean(), rtol=5e-3)
    assert not fit.check(ROWS)["outside"].all()
