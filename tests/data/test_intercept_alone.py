"""Formulas of an intercept alone, with group terms or without: the rows have no raw column, from any source."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayescore as bc

SOURCES = ("pandas", "polars", "dask", "csv", "parquet", "blocks")
FORMULAS = {"y ~ 1": 0, "y ~ (1 | g)": 1, "y ~ 1 + (1 | g)": 1, "y ~ (1 | g) + (1 | h)": 2}


def _rows():
    n = np.arange(300)
    return pd.DataFrame({"y": n % 3 == 0, "g": n % 7, "h": n % 4, "z": n * 0.1}).astype({"y": int})


def _source(kind, rows, folder):
    if kind == "csv":
        rows.to_csv(folder / "rows.csv", index=False)
        return str(folder / "rows.csv")
    if kind == "parquet":
        rows.to_parquet(folder / "rows.parquet", row_group_size=64)
        return str(folder / "rows.parquet")
    if kind == "blocks":
        parts = rows[:100], rows[100:]
        return lambda: iter([(part[["z", "g", "h"]], part["y"]) for part in parts])
    return {
        "pandas": lambda own: own,
        "polars": pl.from_pandas,
        "dask": lambda own: dd.from_pandas(own, npartitions=3),
    }[kind](rows)


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("formula", FORMULAS)
def test_every_source_gives_rows_of_ones(formula, kind, tmp_path):
    rows = _rows()
    core = bc.all_rows(_source(kind, rows, tmp_path), formula=formula, progressbar=False)
    assert core.design.names == ("Intercept",)
    np.testing.assert_array_equal(core.X, np.ones((len(rows), 1)))
    np.testing.assert_array_equal(core.y, np.where(rows["y"] == 1, 1, -1))
    assert len(core.design.groups) == FORMULAS[formula]


def test_frames_without_a_column_have_as_many_rows_as_they_say():
    design = bc.all_rows(_rows(), formula="y ~ 1", progressbar=False).design
    np.testing.assert_array_equal(design.transform(pd.DataFrame(index=range(4))), np.ones((4, 1)))
    np.testing.assert_array_equal(design.transform(pd.DataFrame({"other": [1.0, 2.0]})), np.ones((2, 1)))
