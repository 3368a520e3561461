"""Columns of tables: which are read, and batches of them as rows."""

import json

import numpy as np
import pyarrow as pa
import pytest

from bayescore.data.columns import Columns, label_codes
from bayescore.data.roles import Roles, resolve_columns
from bayescore.data.survey import DistinctValues, Survey
from bayescore.validation import DataError, RowError

TABLE = pa.record_batch({"a": [1, 2, 3], "label": ["no", "yes", "no"], "w": [1.0, 2.0, 0.5], "b": [0.5, 1.5, 2.5]})
COLUMNS = Columns(("b", "a"), "label", "w", ("no", "yes"))
ROLES = Roles(label="label", weights="w")


def test_a_batch_becomes_rows_in_the_order_of_the_names():
    rows = COLUMNS.block(TABLE, 40)
    np.testing.assert_array_equal(rows.X, [[0.5, 1], [1.5, 2], [2.5, 3]])
    assert rows.y.tolist() == [-1, 1, -1]
    assert rows.weights.tolist() == [1.0, 2.0, 0.5]
    assert rows.index.tolist() == [40, 41, 42]
    assert COLUMNS.names == ["b", "a", "label", "w"]
    assert Columns(("a",), "label", None, ("no", "yes")).block(TABLE, 0).weights.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "labels", [pa.array([7, 9, 7]), pa.array([7.0, 9.0, 7.0]), pa.array(["7", "9", "7"]).dictionary_encode()]
)
def test_labels_of_any_type_are_signed_by_their_order(labels):
    batch = pa.record_batch({"a": [1.0, 2.0, 3.0], "label": labels})
    columns = Columns(("a",), "label", None)
    columns = columns.with_survey(columns.survey(batch))
    assert columns.block(batch, 0).y.tolist() == [-1, 1, -1]


def test_bad_rows_are_counted_from_the_batch_s_place():
    for bad, message in (
        (TABLE.set_column(1, "label", pa.array(["no", "maybe", "yes"])), "41"),
        (TABLE.set_column(1, "label", pa.array(["no", None, "yes"])), "41"),
        (TABLE.set_column(2, "w", pa.array([1.0, 1.0, -1.0])), "42"),
    ):
        with pytest.raises(RowError) as caught:
            COLUMNS.block(bad, 40)
        assert message in str(caught.value)
    with pytest.raises(DataError, match="column 'label'"):
        COLUMNS.with_survey(Survey(3, DistinctValues.of("abc")))


def test_codes_point_at_their_labels_missing_ones_too():
    for column in (pa.array(["x", None, "y", "x"]), pa.array(["x", None, "y", "x"]).dictionary_encode()):
        values, codes = label_codes(column)
        assert values[codes].tolist() == ["x", None, "y", "x"]


def test_features_are_all_columns_but_label_weights_and_a_stored_index():
    meta = {b"pandas": json.dumps({"index_columns": ["b"], "columns": []}).encode()}
    assert resolve_columns(ROLES, TABLE.schema).features == ("a", "b")
    assert resolve_columns(ROLES, TABLE.schema.with_metadata(meta)).features == ("a",)
    assert resolve_columns(Roles(label="label"), TABLE.schema, only=["b"]).features == ("b",)
    for label, weights, only, message in (
        (None, None, None, "label is missing: .* the columns are a, label, w, b"),
        ("y", None, None, "label='y' is not a column"),
        ("label", "v", None, "weights='v' is not a column"),
        ("label", None, ["label"], "no feature columns beside 'label'"),
    ):
        with pytest.raises(DataError, match=message):
            resolve_columns(Roles(label=label, weights=weights), TABLE.schema, only=only)
