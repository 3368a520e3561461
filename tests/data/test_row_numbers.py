"""Errors name the row of the data as given, whatever rows before it are left out and whatever the source."""

from dataclasses import replace

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.validation import RowError

N, BAD = 3000, 2000

pytestmark = pytest.mark.filterwarnings("ignore:missing='drop' left out")


def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.exponential(size=N) + 0.1, "z": rng.normal(size=N), "y": rng.integers(0, 2, N)})
    data["w"], data["h"] = 1.0, rng.integers(0, 2, N)
    data.loc[5, "z"], data.loc[9, "w"], data.loc[BAD, "x"] = np.nan, 0.0, 0.0
    return data


def parquet(data, folder):
    data.to_parquet(folder / "rows.parquet", row_group_size=500)
    return folder / "rows.parquet"


def csv(data, folder):
    data.to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


SOURCES = {
    "frame": lambda data, _: data,
    "Parquet": parquet,
    "CSV": csv,
    "Dask": lambda data, _: dd.from_pandas(data, npartitions=4),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("weights", [None, "w"])
def test_rows_left_out_before_it_count(source, weights, tmp_path):
    data, asked = SOURCES[source](rows(), tmp_path), {"weights": weights} if weights else {}
    with pytest.raises(RowError, match=rf"'log\(x\)' is -inf in row {BAD}, though its columns are finite") as found:
        bc.all_rows(data, formula="y ~ log(x) + z", missing="drop", progressbar=False, **asked)
    assert found.value.row == BAD


@pytest.mark.parametrize("source", SOURCES)
def test_rows_that_a_formula_learns_from_are_named_alike(source, tmp_path):
    data = SOURCES[source](rows(), tmp_path)
    with pytest.raises(RowError, match=rf"is -inf in row {BAD}") as found:
        bc.all_rows(data, formula="y ~ center(log(x)) + z", missing="drop", progressbar=False)
    assert found.value.row == BAD


def test_averages_say_it_too():
    fit = bc.fit("y ~ log(x) + z + h", rows()[:1000], missing="drop", random_state=0, progressbar=False)
    of_all = replace(fit, _given=replace(fit._given, data=rows()))
    with pytest.raises(RowError, match=f"is -inf in row {BAD}"):
        of_all.average_predictions(variables="h")
