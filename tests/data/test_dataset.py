"""Arrow datasets: rows in their order with their partition columns, by row groups where they are plain Parquet."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import bayescore as bc
from bayescore.data.dataset import Dataset
from bayescore.data.parquet import ParquetSource
from bayescore.data.sources import as_source
from bayescore.types import stack
from bayescore.validation import DataError
from tests.cuts import build_in_blocks

N = 600
_rng = np.random.default_rng(12)
FRAME = pd.DataFrame({"a": _rng.normal(size=N), "b": _rng.integers(-4, 5, N), "w": _rng.uniform(0.5, 3.0, N)})
FRAME["label"] = np.where(FRAME["a"] + _rng.logistic(size=N) > 0, "yes", "no")
FRAME["year"] = np.repeat([2019, 2020, 2021], N // 3).astype(np.int32)
FRAME["site"] = np.tile(["north", "south"], N // 2)
COLUMNS = {"label": "label", "weights": "w"}


def hive(folder, by=("year",), frame=FRAME):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    parts = pads.partitioning(pa.schema([table.schema.field(name) for name in by]), flavor="hive")
    pads.write_dataset(
        table, folder, format="parquet", partitioning=parts, max_rows_per_group=64, max_rows_per_file=128
    )
    return pads.dataset(folder, partitioning=parts)


def assert_rows(source, table):
    frame = table.to_pandas()
    for found in (list(source.blocks()), list(Dataset(source, block_rows=50).map(lambda _, block: block))):
        rows = stack(found)
        np.testing.assert_array_equal(rows.X, frame[list(source.design.raw_names)])
        np.testing.assert_array_equal(rows.y, np.where(frame["label"] == "yes", 1, -1))
        np.testing.assert_array_equal(rows.weights, frame["w"])


def test_partition_columns_are_features_and_rows_stand_in_the_datasets_order(tmp_path):
    data = hive(tmp_path, frame=FRAME.drop(columns="site"))
    source = as_source(data, **COLUMNS)
    assert isinstance(source, ParquetSource)
    assert source.design.raw_names == ("a", "b", "year")
    assert_rows(source, data.to_table())


def test_coresets_are_those_of_the_table_to_the_last_bit(tmp_path):
    data = hive(tmp_path, frame=FRAME.drop(columns="site"))
    for method in ("calibrated", "online"):
        options = {"method": method, "size": 80, "block_rows": 64, **COLUMNS}
        found, expected = (build_in_blocks(given, **options) for given in (data, data.to_table()))
        for name in ("X", "y", "weights", "index"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_a_partition_column_of_text_is_a_factor_or_the_label(tmp_path):
    data = hive(tmp_path, by=("year", "site"))
    asked = {"formula": "label ~ a * site + C(year)", "size": 120, "random_state": 3, "progressbar": False}
    found, expected = bc.build_coreset(data, **asked), bc.build_coreset(data.to_table(), **asked)
    assert found.feature_names == expected.feature_names
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.weights, expected.weights)
    numbers = hive(tmp_path / "numbers", by=("site",), frame=FRAME.drop(columns="label"))
    assert as_source(numbers, label="site").classes == ("north", "south")


def filtered(tmp_path):
    return hive(tmp_path, frame=FRAME.drop(columns="site")).filter((pc.field("year") > 2019) & (pc.field("a") < 1.0))


def widened(tmp_path):
    frame = FRAME.drop(columns=["site", "year"])
    pq.write_table(pa.Table.from_pandas(frame[:300], preserve_index=False), tmp_path / "0.parquet")
    narrow = frame[300:].astype({"a": np.float32, "b": np.int16})
    pq.write_table(pa.Table.from_pandas(narrow, preserve_index=False), tmp_path / "1.parquet")
    schema = pa.Schema.from_pandas(frame, preserve_index=False)
    return pads.dataset(tmp_path, schema=schema)


def semicolons(tmp_path):
    FRAME.drop(columns=["site", "year"]).to_csv(tmp_path / "rows.csv", sep=";", index=False)
    return pads.dataset(tmp_path / "rows.csv", format=pads.CsvFileFormat(pcsv.ParseOptions(delimiter=";")))


def in_memory(_):
    return pads.dataset(pa.Table.from_pandas(FRAME.drop(columns=["site", "year"]), preserve_index=False))


def united(tmp_path):
    frame = FRAME.drop(columns="site")
    return pads.dataset([hive(tmp_path / name, frame=frame[i : i + 300]) for i, name in ((0, "one"), (300, "two"))])


@pytest.mark.parametrize("kind", [filtered, widened, semicolons, in_memory, united])
def test_others_are_read_in_batches(kind, tmp_path):
    data = kind(tmp_path)
    source = as_source(data, **COLUMNS)
    assert not isinstance(source, ParquetSource)
    assert_rows(source, data.to_table())


def test_what_does_not_fit_is_refused(tmp_path):
    data = hive(tmp_path, frame=FRAME.drop(columns="site"))
    with pytest.raises(DataError, match=r"label is missing: .* a, b, w, label, year"):
        as_source(data)
    with pytest.raises(DataError, match="y is given beside a dataset"):
        as_source(data, FRAME["label"])
    with pytest.raises(DataError, match="no rows"):
        as_source(data.filter(pc.field("a") > 100.0), **COLUMNS)
