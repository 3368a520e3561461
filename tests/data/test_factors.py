"""Columns of text as codes: levels, their order, and what is refused."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from bayescore.data.column_kinds import is_text, keeps_order
from bayescore.data.factors import level_codes
from bayescore.data.survey import DistinctValues, Survey, distinct_values, merge_surveys
from bayescore.limits import MAX_LEVELS_NAMED
from bayescore.validation import DataError, RowError

TEXT = pa.chunked_array([["b", "a", None], ["c", "a"]])


def test_levels_are_sorted_whatever_the_order_of_rows():
    assert distinct_values(TEXT, ordered=False).levels("f") == ("a", "b", "c")
    parts = [Survey(levels={"f": distinct_values(chunk, ordered=False)}) for chunk in reversed(TEXT.chunks)]
    assert merge_surveys(parts).levels["f"].levels("f") == ("a", "b", "c")


def pandas_column(categories, ordered=False, codes=(0, 2, 0)):
    frame = pd.DataFrame({"f": pd.Categorical.from_codes(codes, categories, ordered=ordered)})
    return pa.Table.from_pandas(frame)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_categorical_keeps_its_order_without_levels_that_no_row_has(ordered):
    table = pandas_column(["low", "mid", "high"], ordered)
    assert keeps_order(table.schema, "f")
    assert distinct_values(table.column("f"), ordered=True).levels("f") == ("low", "high")


def test_orders_that_disagree_give_sorted_levels():
    one, two = (
        distinct_values(pandas_column(order).column("f"), ordered=True) for order in (["x", "z", "y"], ["z", "x", "y"])
    )
    assert (one + two).levels("f") == ("x", "y", "z")
    assert (one + DistinctValues()).order == one.order


def test_a_plain_dictionary_has_no_order():
    column = pa.array(["z", "a", "z"]).dictionary_encode()
    table = pa.table({"f": column})
    assert is_text(table.schema.field("f").type)
    assert not keeps_order(table.schema, "f")
    assert distinct_values(table.column("f"), ordered=False).levels("f") == ("a", "z")


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_codes_are_places_among_the_levels(kind):
    found = level_codes(pa.array(["b", None, "a"], kind), "f", ["a", "b"], 0)
    np.testing.assert_array_equal(found, [1.0, np.nan, 0.0])


def test_codes_of_a_dictionary_as_long_as_its_indices_can_count():
    levels = [f"{i:03d}" for i in range(128)]
    column = pa.DictionaryArray.from_arrays(pa.array([127, None, 0], pa.int8()), levels)
    np.testing.assert_array_equal(level_codes(column, "f", levels, 0), [127.0, np.nan, 0.0])


def test_numbers_in_a_dictionary_are_levels():
    column = pa.array([30, 10, 30]).dictionary_encode()
    assert distinct_values(column, ordered=False).levels("f") == (10, 30)
    np.testing.assert_array_equal(level_codes(column, "f", [10, 30], 0), [1.0, 0.0, 1.0])


def test_an_unknown_level_is_named_with_its_column_and_row():
    with pytest.raises(RowError, match=r"column 'f' has the level 'c' in row 12, .*'a', 'b'") as error:
        level_codes(pa.array(["a", "b", "c"]), "f", ["a", "b"], 10)
    assert error.value.row == 12
    # one that the dictionary has and no row uses is none
    column = pa.DictionaryArray.from_arrays(pa.array([0, 0]), ["a", "unused"])
    np.testing.assert_array_equal(level_codes(column, "f", ["a"], 0), [0.0, 0.0])


def test_columns_that_are_no_factors_are_refused():
    with pytest.raises(DataError, match=r"'f' has more than 2,000 levels.*name it as groups, \(1 \| f\)"):
        merge_surveys([Survey(levels={"f": DistinctValues.of(str(i) for i in range(MAX_LEVELS_NAMED + 1))})])
    with pytest.raises(DataError, match="'f' mixes numbers and text"):
        DistinctValues.of([1, "a"]).levels("f")
    with pytest.raises(DataError, match=r"column 'f' is double, and held text before \('a'\)"):
        level_codes(pa.array([1.0]), "f", ["a"], 0)
