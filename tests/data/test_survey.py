"""What one look at rows learns is the same in any cut, in any order of adding up, and from every source."""

from functools import reduce
from operator import add

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

from bayescore.data.blocks import Block, Intake
from bayescore.data.factors import Selection
from bayescore.data.roles import Roles, resolve_columns
from bayescore.data.sources import KINDS, as_source
from bayescore.data.survey import MAX_LABELS_READ, DistinctValues, Survey
from bayescore.validation import DataError

dd = pytest.importorskip("dask.dataframe")
pl = pytest.importorskip("polars")

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, used by Dask

N = 300
_rng = np.random.default_rng(29)
FRAME = pd.DataFrame(
    {
        "x": _rng.normal(size=N),
        "device": _rng.choice(["tv", "phone", "watch"], N),
        "town": _rng.integers(0, 40, N),
        "label": _rng.choice(["yes", "no"], N),
        "w": np.where(np.arange(N) == 250, 0.0, 1.0),
    }
)
ROLES = Roles(label="label", weights="w", groups=["town"])
COLUMNS = resolve_columns(ROLES, pa.Table.from_pandas(FRAME).schema, Selection())
GIVEN = {"label": "label", "weights": "w", "groups": ["town"], "selection": Selection()}


def survey(frame):
    return COLUMNS.survey(pa.Table.from_pandas(frame, preserve_index=False))


def assert_same(one, other):
    assert one == other
    assert list(one.labels.values) == list(other.labels.values)  # a dict equals one of another order
    for name, own in one.levels.items():
        assert list(own.values) == list(other.levels[name].values)


def random_survey(rng):
    """Return one of a few rows, of many kinds: no rows, orders that disagree, more labels than are looked at."""

    def values(most):
        order = (None, tuple("abcdefghi"), tuple("ihgfedcba"))[rng.integers(3)]
        missing = bool(rng.random() < 0.2)
        return DistinctValues.of(
            rng.permutation(list("abcdefghi"))[: rng.integers(most + 1)].tolist(), order, missing=missing
        )

    levels = {name: values(9) for name in ("device", "town") if rng.random() < 0.8}
    return Survey(int(rng.integers(50)), values(MAX_LABELS_READ), levels, bool(rng.random() < 0.3))


def test_surveys_add_up_in_any_order_of_adding():
    rng = np.random.default_rng(0)
    for _ in range(500):
        a, b, c = (random_survey(rng) for _ in range(3))
        assert_same((a + b) + c, a + (b + c))
        assert_same(Survey() + a, a)
        assert_same(a + Survey(), a)
        one, other = a + b, b + a
        assert one.levels == other.levels
        assert (one.n_rows, one.zero_weights) == (other.n_rows, other.zero_weights)


@pytest.mark.parametrize("seed", range(20))
def test_any_cut_into_blocks_gives_the_same_survey(seed):
    cuts = np.sort(np.random.default_rng(seed).integers(0, N, 7))
    parts = [FRAME.iloc[part] for part in np.split(np.arange(N), cuts)]
    assert_same(reduce(add, map(survey, parts), Survey()), survey(FRAME))
    control = reduce(add, map(survey, parts[1:]), Survey())
    assert control != survey(FRAME) or not len(parts[0])


def written(tmp_path, name):
    path = tmp_path / name
    path.mkdir()
    for i, part in enumerate(np.array_split(np.arange(N), 4)):
        FRAME.iloc[part].to_parquet(path / f"part-{i}.parquet", row_group_size=30, index=False)
    return path


def as_csv(tmp_path):
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


def relation(tmp_path):
    path = tmp_path / "rows.parquet"
    FRAME.to_parquet(path)
    return duckdb.connect().sql(f"select * from '{path}'")


SOURCES = {
    "pandas": lambda tmp: FRAME,
    "polars": lambda tmp: pl.from_pandas(FRAME),
    "arrow": lambda tmp: pa.concat_tables(pa.Table.from_pandas(FRAME.iloc[i : i + 50]) for i in range(0, N, 50)),
    "folder": lambda tmp: written(tmp, "rows"),
    "dataset": lambda tmp: pads.dataset(written(tmp, "rows")),
    "CSV": as_csv,
    "LazyFrame": lambda tmp: pl.from_pandas(FRAME).lazy(),
    "DuckDB": relation,
    "Dask": lambda tmp: dd.from_pandas(FRAME, npartitions=5, sort=False),
}


def opened(data, y=None, *, selection=None, **given):
    """Return a source as `as_source` does, before rows are left out."""
    kind = next(kind for kind in KINDS if kind.fits(data))
    return kind.open(data, Roles(y, **given), selection)


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_same_survey(kind, tmp_path):
    assert_same(opened(SOURCES[kind](tmp_path), **GIVEN).survey, survey(FRAME))


def blocks(cuts):
    for part in np.split(np.arange(N), cuts):
        rows = FRAME.iloc[part]
        yield rows[["x", "device", "town"]], rows["label"], rows["w"]


def test_blocks_and_arrays_give_the_same_survey_too():
    callable_rows = as_source(lambda: blocks([3, 50, 51, 260]), groups="town", selection=Selection())
    assert callable_rows.survey == survey(FRAME)
    array = FRAME[["x"]].to_numpy()
    found = opened(array, FRAME["label"], weights=FRAME["w"].to_numpy(), groups={"town": FRAME["town"]}).survey
    expected = survey(FRAME)
    assert found == Survey(N, expected.labels, {"town": expected.levels["town"]}, True)


def test_a_stream_knows_after_each_block_what_the_rows_before_tell():
    intake = Intake(selection=Selection(), group_columns=("town",))
    for end, block in zip((120, 240, N), blocks([120, 240]), strict=True):
        intake, _ = intake.take(Block(*block))
        assert intake.survey == survey(FRAME.iloc[:end])
        assert Survey.from_dict(intake.survey.to_dict()) == intake.survey


def test_workers_of_a_cluster_give_the_same_survey():
    distributed = pytest.importorskip("distributed")
    frame = dd.from_pandas(FRAME, npartitions=7, sort=False)
    quiet = {"processes": False, "n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**quiet) as cluster, distributed.Client(cluster):
        source = opened(frame, **GIVEN)
        assert source.pool is not None
        assert_same(source.survey, survey(FRAME))


def test_labels_are_looked_at_until_they_are_too_many():
    read = []

    def parts():
        for i in range(10):
            read.append(i)
            yield survey(FRAME.assign(label=[f"{i}{k % 2}" for k in range(N)]))

    found = COLUMNS.merged(parts())
    assert len(found.labels.values) == MAX_LABELS_READ
    assert read == [0, 1, 2]
    with pytest.raises(DataError, match=r"more than 5 classes \('00', '01', '10', '11', '20', \.\.\.\)"):
        COLUMNS.with_survey(found)


def test_missing_labels_are_known_whatever_they_are():
    for missing in (None, np.nan, pd.NA, pd.NaT):
        labels = pd.array(["a", missing, "b"], dtype=object)
        with pytest.raises(DataError, match="y has missing labels"):
            as_source(np.eye(3), labels)


def test_ordered_labels_keep_their_order_in_blocks_that_have_one_of_them():
    kind = pd.CategoricalDtype(["yes", "no"], ordered=True)
    labels = pd.Series(["no", "no", "yes", "yes"]).astype(kind)
    X = np.arange(8.0).reshape(4, 2)
    for cut in ([2], [1, 3], []):
        parts = np.split(np.arange(4), cut)
        source = as_source(lambda parts=parts: ((X[i], labels.iloc[i]) for i in parts))
        assert source.classes == ("yes", "no")
        assert np.concatenate([block.y for block in source.blocks()]).tolist() == [1, 1, -1, -1]


def test_a_block_of_trials_after_labels_of_another_kind_is_refused():
    intake, _ = Intake().take(Block(np.eye(2), ["a", "b"]))
    with pytest.raises(DataError, match="block 1 has trials, and blocks before it the label 'b'; give trials in each"):
        intake.take(Block(np.eye(2), [1, 2], beside=[3, 3]))
