"""Sources: whatever holds the data, the same rows, labels, weights and positions come out."""

import itertools
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.types import stack
from bayescore.validation import DataError

pl = pytest.importorskip("polars")
dd = pytest.importorskip("dask.dataframe")

N, NAMES = 203, ("a", "b", "c")
_rng = np.random.default_rng(20)
X = np.round(_rng.normal(scale=4.0, size=(N, 3)))  # whole numbers: exact in every numeric type
Y = np.where(_rng.random(N) < 0.4, "yes", "no")
W = _rng.uniform(0.5, 3.0, N)
SHUFFLED = _rng.permutation(N)  # no arithmetic progression: pandas stores those as a plain range
FRAME = pd.DataFrame(X, columns=list(NAMES)).assign(label=Y, w=W)


def everything(source):
    return stack(list(source.blocks()))


def assert_rows(source, weights=None, names=NAMES):
    rows = everything(source)
    assert source.n_rows == N
    assert source.design.raw_names == names
    assert rows.X.dtype == np.float64
    assert rows.X.flags.c_contiguous
    np.testing.assert_array_equal(rows.X, X)
    np.testing.assert_array_equal(rows.y, np.where(Y == "yes", 1, -1))
    np.testing.assert_array_equal(rows.weights, np.ones(N) if weights is None else weights)
    np.testing.assert_array_equal(rows.index, np.arange(N))


ARRAYS = {
    "float64": X,
    "float32": X.astype(np.float32),
    "float16": X.astype(np.float16),
    "int64": X.astype(np.int64),
    "int8": X.astype(np.int8),
    "fortran": np.asfortranarray(X),
    "strided": np.repeat(X, 2, axis=0)[::2],
    "reversed view": X[::-1].copy()[::-1],
    "lists": X.tolist(),
    "tuples": [tuple(row) for row in X],
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_of_every_kind_give_the_same_rows(kind):
    assert_rows(as_source(ARRAYS[kind], Y), names=("x0", "x1", "x2"))
    assert_rows(as_source(ARRAYS[kind], Y.tolist(), weights=W.tolist()), W, names=("x0", "x1", "x2"))


def parquet(tmp_path, frame, rows=None, name="rows.parquet"):
    path = tmp_path / name
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=rows)
    return path


def folder(tmp_path, frame):
    cuts = [0, 1, 90, 91, N]
    (tmp_path / "parts" / "z").mkdir(parents=True)
    for i, (start, stop) in enumerate(itertools.pairwise(cuts)):
        place = "parts" if i < 2 else "parts/z"  # files are read in the order of their paths
        parquet(tmp_path / place, frame.iloc[start:stop], 17, f"part-{i}.parquet")
    return tmp_path / "parts"


TABLES = {
    "pandas": lambda tmp, frame: frame,
    "pandas, index of text": lambda tmp, frame: frame.set_index(pd.Index([f"r{i}" for i in range(N)], name="id")),
    "pandas, shuffled index": lambda tmp, frame: frame.set_index(SHUFFLED),
    "pandas, nullable types": lambda tmp, frame: frame.convert_dtypes(),
    "polars": lambda tmp, frame: pl.from_pandas(frame),
    "arrow": lambda tmp, frame: pa.Table.from_pandas(frame, preserve_index=False),
    "arrow, many chunks": lambda tmp, frame: pa.concat_tables(
        pa.Table.from_pandas(frame.iloc[i : i + 19], preserve_index=False) for i in range(0, N, 19)
    ),
    "record batch": lambda tmp, frame: pa.RecordBatch.from_pandas(frame, preserve_index=False),
    "parquet": parquet,
    "parquet, groups of 1": lambda tmp, frame: parquet(tmp, frame, 1),
    "parquet, groups of 7": lambda tmp, frame: str(parquet(tmp, frame, 7)),
    "parquet, pandas index stored": lambda tmp, frame: stored_index(tmp, frame, None),
    "parquet, named index stored": lambda tmp, frame: stored_index(tmp, frame, "id"),
    "arrow, index stored": lambda tmp, frame: pa.Table.from_pandas(frame.set_index(SHUFFLED)),
    "folder": folder,
}


def stored_index(tmp_path, frame, name):
    path = tmp_path / "indexed.parquet"
    frame.set_index(pd.Index(SHUFFLED, name=name)).to_parquet(path)
    assert (name or "__index_level_0__") in pq.read_schema(path).names
    return path


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("step", [None, 8], ids=["one block", "blocks of 8"])
def test_tables_and_files_give_the_rows_of_the_array(kind, step, tmp_path):
    source = as_source(TABLES[kind](tmp_path, FRAME), label="label", weights="w")
    assert_rows(source, W)
    if step is None:
        assert_rows(source, W)  # a source can be read again
    else:
        blocks = [block for piece in source.division(step).pieces for block in piece.read(0, piece.n_rows)]
        assert max(map(len, blocks)) <= step
        np.testing.assert_array_equal(stack(blocks).X, everything(source).X)


def test_a_frame_and_a_series_of_one_index_go_together():
    series = pd.Series(Y, index=np.arange(N) + 5, name="outcome")
    source = as_source(FRAME[list(NAMES)].set_index(np.arange(N) + 5), series, weights=W)
    assert source.label == "outcome"
    assert_rows(source, W)
    assert as_source(FRAME[list(NAMES)], Y).label == "y"
    assert_rows(as_source(pl.from_pandas(FRAME[list(NAMES)]), pl.Series("b2", Y)))


@pytest.mark.parametrize("other", [np.arange(N)[::-1], np.arange(N) + 1, SHUFFLED], ids=["reversed", "moved", "mixed"])
def test_pandas_objects_of_different_indexes_are_refused(other):
    table, labels, weights = FRAME[list(NAMES)], pd.Series(Y), pd.Series(W)
    for data, y, w, named in (
        (table, labels.set_axis(other), None, "y has another index than data"),
        (table, labels.set_axis(other), weights, "y has another index than data"),
        (table, labels, weights.set_axis(other), "weights has another index than data"),
        (table, labels.set_axis(other).to_frame()[0], weights.to_numpy(), "y has another index than data"),
        (X, labels, weights.set_axis(other), "weights has another index than y"),
        (lambda: iter([(table, labels.set_axis(other))]), None, None, "block 0: y has another index than X"),
        (dd.from_pandas(table, 2), dd.from_pandas(labels.set_axis(other), 2, sort=False), None, "another index"),
    ):
        with pytest.raises(DataError, match=f"{named}.*align them, .*to_numpy"):
            everything(as_source(data, y, weights=w))
    assert_rows(as_source(table, labels.set_axis(other).to_numpy(), weights=weights), W)
    assert_rows(as_source(table.set_axis(other), labels.set_axis(other), weights=W), W)


MASKED = np.ma.masked_array(np.where(Y == "yes", 1, 0), mask=np.arange(N) == 9)


@pytest.mark.parametrize(
    "data", [X, FRAME[list(NAMES)], pl.from_pandas(FRAME[list(NAMES)])], ids=["array", "pandas", "polars"]
)
def test_masked_labels_and_weights_are_refused(data):
    with pytest.raises(DataError, match="y is a masked array with masked entries; drop such rows"):
        as_source(data, MASKED)
    with pytest.raises(DataError, match="weights is a masked array with masked entries; drop such rows"):
        as_source(data, Y, weights=np.ma.masked_array(W, mask=np.arange(N) == 9))
    assert everything(as_source(data, np.ma.masked_array(Y))).y.tolist() == np.where(Y == "yes", 1, -1).tolist()


def test_masked_blocks_are_refused():
    for block in ((X, MASKED), (X, Y, np.ma.masked_array(W, mask=W > 1)), (np.ma.masked_array(X, mask=X > 1), Y)):
        with pytest.raises(DataError, match=r"block 0: \w+ is a masked array"):
            as_source(lambda block=block: iter([block]))


def test_numbers_as_column_names_become_text():
    frame = pd.DataFrame(np.column_stack([Y == "yes", X]))
    source = as_source(frame, label=0)
    assert source.label == "0"
    assert source.design.raw_names == ("1", "2", "3")


LABELS = {
    "bool": (Y == "yes", (False, True)),
    "int": (np.where(Y == "yes", 7, -3), (-3, 7)),
    "uint8": (np.where(Y == "yes", 9, 2).astype(np.uint8), (2, 9)),
    "float": (np.where(Y == "yes", 0.1, -0.5), (-0.5, 0.1)),
    "float32": (np.where(Y == "yes", 2.5, 1.0).astype(np.float32), (1.0, 2.5)),
    "text": (Y, ("no", "yes")),
    "objects": (Y.astype(object), ("no", "yes")),
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_kind_keep_their_value_and_the_second_is_plus_one(kind, tmp_path):
    labels, classes = LABELS[kind]
    frame = FRAME[list(NAMES)].assign(label=labels)
    given = [(X, labels), (X, labels.tolist()), (X, pd.Series(labels)), (X, pd.Categorical(labels))]
    for data, y in [*given, (FRAME[list(NAMES)], labels)]:
        source = as_source(data, y)
        assert source.classes == classes
        assert [type(c) for c in source.classes] == [type(c) for c in classes]  # no NumPy scalars
        np.testing.assert_array_equal(everything(source).y, np.where(Y == "yes", 1, -1))
    unused = pd.Categorical(
        labels, categories=[*classes[::-1], *{"bool": [], "text": ["other"], "objects": ["other"]}.get(kind, [99])]
    )
    for data in (frame, frame.assign(label=unused), pl.from_pandas(frame), parquet(tmp_path, frame, 30)):
        source = as_source(data, label="label")
        assert source.classes == classes
        assert [type(c) for c in source.classes] == [type(c) for c in classes]
        assert_rows(source)


def test_sparse_columns_and_foreign_byte_orders_are_read():
    labels, swapped = (
        np.where(Y == "yes", 1, 0),
        FRAME.assign(a=X[:, 0].astype(">f8"), label=(Y == "yes").astype(">i4")),
    )
    assert_rows(as_source(swapped, label="label", weights="w"), W)
    assert_rows(as_source(FRAME.assign(b=pd.arrays.SparseArray(X[:, 1])), label="label", weights="w"), W)
    for y in (labels.astype(">i4"), labels.astype(">f8"), np.where(labels, "b", "a").astype(">U1")):
        assert_rows(as_source(FRAME[list(NAMES)], y, weights=W.astype(">f8")), W)
        for data in (X.astype(">f8"), lambda y=y: iter([(X, y)])):
            np.testing.assert_array_equal(everything(as_source(data, None if callable(data) else y)).y, 2 * labels - 1)


@pytest.mark.parametrize("text", [b"[1, 2]", b"x", b"[" * 100_000, b'{"index_columns": 3}'])
def test_metadata_of_others_under_the_key_of_pandas_do_not_matter(text, tmp_path):
    table = pa.Table.from_pandas(FRAME, preserve_index=False).replace_schema_metadata({b"pandas": text})
    pq.write_table(table, tmp_path / "rows.parquet")
    assert_rows(as_source(tmp_path / "rows.parquet", label="label", weights="w"), W)


def test_polars_categories_and_text_views_are_read():
    frame = pl.from_pandas(FRAME)
    assert_rows(as_source(frame.with_columns(pl.col("label").cast(pl.Categorical)), label="label", weights="w"), W)
    assert_rows(
        as_source(frame.with_columns(pl.col("label").cast(pl.Enum(["x", "no", "yes"]))), label="label", weights="w"), W
    )


def test_booleans_decimals_and_small_types_are_features():
    table = pa.table(
        {
            "flag": pa.array([True, False, True]),
            "price": pa.array([Decimal("1.50"), Decimal("0.25"), Decimal("-2.00")]),
            "half": pa.array(np.array([0.5, 1.0, 2.0], dtype=np.float16)),
            "y": [0, 1, 0],
        }
    )
    np.testing.assert_array_equal(
        everything(as_source(table, label="y")).X, [[1.0, 1.5, 0.5], [0.0, 0.25, 1.0], [1.0, -2.0, 2.0]]
    )


def test_pieces_are_as_long_as_asked_and_a_ready_source_passes_through():
    source = as_source(X, Y)
    assert [len(block) for block in source.blocks()] == [N]
    assert [piece.n_rows for piece in source.division(50).pieces] == [50, 50, 50, 50, 3]
    assert as_source(source) is source


# --- what is refused ---------------------------------------------------------------------------------------

BAD_ARRAYS = {
    "1-D": (X[:, 0], Y, {}, r"shape \(203,\).*reshape\(-1, 1\)"),
    "3-D": (X[None], Y, {}, "must be 2-D"),
    "a series": (FRAME["a"], Y, {}, r"reshape\(-1, 1\)"),
    "no rows": (X[:0], Y[:0], {}, "at least one row"),
    "no columns": (X[:, :0], Y, {}, "at least one row and one column"),
    "text": (X.astype(str), Y, {}, "must be numeric"),
    "complex": (X.astype(complex), Y, {}, "must be numeric"),
    "ragged": ([[1.0, 2.0], [3.0]], [0, 1], {}, "differ in length"),
    "masked": (np.ma.masked_greater(X, 5.0), Y, {}, "masked"),
    "no labels": (X, None, {}, "y is missing"),
    "y of another length": (X, Y[:-1], {}, r"y has shape \(202,\).*\(203,\)"),
    "y of two dimensions": (X, Y[:, None], {}, r"y has shape \(203, 1\)"),
    "one class": (X, np.ones(N), {}, r"one class only, 1\.0"),
    "three classes": (X, np.arange(N) % 3, {}, r"3 classes \(0, 1, 2\)"),
    "many classes": (X, np.arange(N), {}, "classes .*two are needed"),
    "NaN label": (X, np.where(Y == "yes", 1.0, np.nan), {}, "missing labels"),
    "None label": (X, np.where(Y == "yes", 1, None), {}, "missing labels"),
    "NA label": (X, pd.array([1, 0, None, *([1] * (N - 3))], dtype="Int64"), {}, "missing labels"),
    "mixed labels": (X, np.array(["a", 1] * 101 + ["a"], dtype=object), {}, "y' is of mixed types"),
    "dates as labels": (
        X,
        np.array(["2020-01-01", "2021-01-01"] * 101 + ["2020-01-01"], dtype="M8[D]"),
        {},
        "type date",
    ),
    "label of an array": (X, None, {"label": "y"}, "data is an array; give the labels as y"),
    "weights named": (X, Y, {"weights": "w"}, "give the weights as an array"),
    "weights of another length": (X, Y, {"weights": W[1:]}, r"weights has shape \(202,\)"),
    "negative weight": (X, Y, {"weights": np.where(np.arange(N) == 9, -1.0, W)}, "weights is -1 in row 9"),
    "NaN weight": (X, Y, {"weights": np.where(np.arange(N) == 9, np.nan, W)}, "weights is nan in row 9"),
    "weights of text": (X, Y, {"weights": Y}, "weights must be numbers"),
    "complex weights": (X, Y, {"weights": W + 1j}, "weights has complex numbers"),
    "dates as weights": (X, Y, {"weights": np.full(N, np.datetime64("2020-01-01"))}, "weights must be numbers"),
    "weights beyond floats": (X, Y, {"weights": [10**400] * N}, "weights must be numbers"),
    "y of text": (X, "y ~ a", {}, "y='y ~ a' is text; give the labels"),
}


@pytest.mark.parametrize("kind", BAD_ARRAYS)
def test_bad_arrays_are_refused_with_the_reason(kind):
    data, y, options, message = BAD_ARRAYS[kind]
    with pytest.raises(DataError, match=message):
        as_source(data, y, **options)


BAD_KINDS = {
    "None": (None, "data is a NoneType"),
    "dict": ({"a": X[:, 0]}, "data is a dict"),
    "number": (3.0, "data is a float"),
}


@pytest.mark.parametrize("kind", BAD_KINDS)
def test_data_of_another_kind_are_refused(kind):
    data, message = BAD_KINDS[kind]
    with pytest.raises(TypeError, match=message):
        as_source(data, Y)


def changed(**columns):
    return FRAME.assign(**columns)


BAD_TABLES = {
    "no label": (FRAME, {}, "label is missing: .* a, b, c, label, w"),
    "label not a column": (FRAME, {"label": "target"}, "label='target' is not a column"),
    "weights not a column": (FRAME, {"label": "label", "weights": "v"}, "weights='v' is not a column"),
    "text column": (changed(b=Y, c=Y), {"label": "label"}, r"not numeric: 'b' \(.*\), 'c' \(.*\)"),
    "category column": (changed(b=pd.Categorical(Y)), {"label": "label"}, "not numeric: 'b'"),
    "date column": (changed(b=pd.Timestamp("2020-01-01")), {"label": "label"}, "not numeric: 'b'"),
    "mixed column": (
        changed(b=["x", 1] * 101 + [2]),
        {"label": "label"},
        r"'b' is of mixed types: 1 \(int\) and 'x' \(str\)",
    ),
    "complex column": (changed(b=X[:, 1] + 1j), {"label": "label"}, "'b' is of type complex128, .*real numbers"),
    "integers beyond 64 bits": (changed(b=[2**70] * N), {"label": "label"}, "not read .*of at most 64 bits"),
    "labels beyond 64 bits": (changed(label=[2**70, 1, 1] * 67 + [1, 1]), {"label": "label"}, "of at most 64 bits"),
    "y beyond 64 bits": (FRAME[["a"]], {"y": [2**70, 1, 1] * 67 + [1, 1]}, "y.*is not read .*of at most 64 bits"),
    "complex y": (FRAME[["a"]], {"y": (Y == "yes") + 1j}, "y.*is not read"),
    "dates as weights": (changed(w=pd.Timestamp("2020-01-01")), {"label": "label", "weights": "w"}, "not numeric: 'w'"),
    "text as weights": (changed(w="a"), {"label": "label", "weights": "w"}, "not numeric: 'w'"),
    "the label as weights": (changed(label=W), {"label": "label", "weights": "label"}, "both name the column 'label'"),
    "a formula": ("label ~ a + b", {"y": FRAME}, "data='label ~ a \\+ b' reads like a formula; give the rows as data"),
    "a long formula": ("label ~ " + "a + " * 99 + "b", {"y": FRAME}, "reads like a formula; give the rows as data"),
    "y and label": (FRAME, {"label": "label", "y": Y}, "y and label='label' are both given"),
    "y of another length": (FRAME, {"y": Y[1:]}, r"y has shape \(202,\)"),
    "mixed y": (FRAME, {"y": np.array(["a", 1] * 101 + ["a"], dtype=object)}, "y' is of mixed types"),
    "missing y": (FRAME[["a"]], {"y": pd.Series(np.where(Y == "yes", "t", None), dtype="str")}, "missing labels"),
    "a column y beside y": (FRAME.rename(columns={"a": "y"}), {"y": Y}, "data has a column 'y' as y has: drop it"),
    "no features": (FRAME[["label", "w"]], {"label": "label", "weights": "w"}, "no feature columns"),
    "no rows": (FRAME.iloc[:0], {"label": "label"}, "empty table"),
    "missing label": (changed(label=np.where(Y == "yes", "t", None)), {"label": "label"}, "missing labels"),
    "missing label of polars": (
        pl.from_pandas(FRAME).with_columns(label=pl.Series(np.where(Y == "yes", "t", None).tolist())),
        {"label": "label"},
        "missing labels",
    ),
    "one class": (changed(label="t"), {"label": "label"}, "column 'label' has one class only, 't'"),
    "three classes": (changed(label=np.arange(N) % 3), {"label": "label"}, "3 classes"),
    "dates as labels": (
        changed(label=pd.to_datetime(np.where(Y == "yes", "2020", "2021"))),
        {"label": "label"},
        "datetime|Timestamp",
    ),
    "repeated columns": (pd.DataFrame(X, columns=["a", "a", "b"]), {"y": Y}, "column 'a' stands more than once"),
    "names alike as text": (pd.DataFrame(X, columns=["1", 1, 2]), {"y": Y}, "column '1' stands more than once"),
    "repeated in arrow": (pa.table([X[:, 0], X[:, 1]], names=["a", "a"]), {"y": Y}, "column 'a' stands more than once"),
}


@pytest.mark.parametrize("kind", BAD_TABLES)
def test_bad_tables_are_refused_with_the_reason(kind):
    data, options, message = BAD_TABLES[kind]
    with pytest.raises(DataError, match=message):
        as_source(data, **options)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_entries_that_are_not_finite_are_named_by_column_and_row(value, tmp_path):
    b = np.where(np.arange(N) == 137, value, 0.0)
    frame = changed(b=b)
    named = re.escape(f"column 'b' is {value} in row 137")
    for data in (frame, pl.from_pandas(frame, nan_to_null=True), parquet(tmp_path, frame, 33)):
        shown = named if not (isinstance(data, pl.DataFrame) and np.isnan(value)) else "column 'b' is nan in row 137"
        with pytest.raises(DataError, match=shown):
            _ = Dataset(as_source(data, label="label", weights="w"), block_rows=10).scan
    with pytest.raises(DataError, match=re.escape(f"column 'x1' is {value} in row 137")):
        _ = Dataset(as_source(frame[list(NAMES)].to_numpy(), Y), block_rows=10).scan


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_bad_weights_of_a_column_are_named_by_row(value):
    frame = changed(w=np.where(np.arange(N) == 137, value, W))
    with pytest.raises(DataError, match=re.escape(f"column 'w') is {value:g} in row 137")):
        _ = Dataset(as_source(frame, label="label", weights="w"), block_rows=10).scan


def test_bad_files_are_refused(tmp_path):
    path = parquet(tmp_path, FRAME, 50)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.parquet"):
        as_source(tmp_path / "nowhere.parquet", label="label")
    text = tmp_path / "text.parquet"
    text.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"text\.parquet' is not a readable Parquet file"):
        as_source(text, label="label")
    whole = path.read_bytes()
    for kept in (0, 3, len(whole) // 2, len(whole) - 1):
        part = tmp_path / "cut.parquet"
        part.write_bytes(whole[:kept])
        with pytest.raises(DataError, match=r"cut\.parquet' is not a readable Parquet file"):
            as_source(part, label="label")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"holds no \.parquet files"):
        as_source(tmp_path / "empty", label="label")
    with pytest.raises(DataError, match="holds no rows"):
        as_source(parquet(tmp_path, FRAME.iloc[:0], name="none.parquet"), label="label")
    with pytest.raises(DataError, match="name the column of the labels as label"):
        as_source(path, Y)
    with pytest.raises(DataError, match="must be the name of a column"):
        as_source(path, label="label", weights=W)
    with pytest.raises(DataError, match="one class only"):
        as_source(parquet(tmp_path, FRAME[Y == "yes"], name="one.parquet"), label="label")


def test_damage_inside_a_file_is_an_error_of_that_file(tmp_path):
    path = parquet(tmp_path, FRAME, 50)
    content = bytearray(path.read_bytes())
    content[4:900] = bytes(896)  # the footer stays whole
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"rows\.parquet' is damaged"):
        _ = Dataset(as_source(path, label="label")).scan


def test_files_of_a_folder_must_have_the_same_columns(tmp_path):
    parquet(tmp_path, FRAME, name="1.parquet")
    parquet(tmp_path, FRAME.rename(columns={"a": "z"}), name="2.parquet")
    with pytest.raises(DataError, match=r"column 'a' stands in .*1\.parquet' and not in .*2\.parquet'"):
        as_source(tmp_path, label="label")
