"""Grouping factors: the same levels, codes and bits from every source and cut, and bad ones refused by name."""

import pickle
import re
from dataclasses import replace

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest

import bayescore as bc
from bayescore.coresets.private import private_coreset
from bayescore.data import factors
from bayescore.data import groups as grouping_factors
from bayescore.data.design import Grouping, append_offset
from bayescore.data.groups import MISSING_GROUP, GivenGroups, Grouper
from bayescore.types import NO_GROUP, WeightedData, stack
from bayescore.validation import DataError

N = 4000
RNG = np.random.default_rng(6)
COUNTY = RNG.choice([f"county {k}" for k in range(30)], N)
AGE = RNG.integers(18, 25, N)
X = np.round(RNG.normal(size=(N, 2)), 1)
Y = (X[:, 0] + 0.1 * AGE - 2 + RNG.logistic(size=N) > 0).astype(int)
FRAME = pd.DataFrame(X, columns=["a", "b"]).assign(county=COUNTY, age=AGE, y=Y)
QUIET = {"progressbar": False}
CUTS = [slice(i, i + 613) for i in range(0, N, 613)]
METHODS = {"uniform": 60, "calibrated": 60, "leverage": 60, "merge_reduce": 60, "aggregate": None}
quiet = pytest.mark.filterwarnings("ignore")


def kinds(frame, folder):
    frame.to_parquet(folder / "rows.parquet", row_group_size=700)
    frame.to_csv(folder / "rows.csv", index=False)
    return {
        "polars": pl.from_pandas(frame),
        "lazy": pl.from_pandas(frame).lazy(),
        "arrow": pa.Table.from_pandas(frame).combine_chunks(),
        "parquet": folder / "rows.parquet",
        "dataset": pads.dataset(folder / "rows.parquet"),
        "csv": folder / "rows.csv",
        "dask": dd.from_pandas(frame, npartitions=6),
        "dask of files": dd.read_parquet(folder / "rows.parquet"),
    }


def assert_same(found, expected, kind):
    for name in ("X", "y", "weights", "index", "group"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=f"{kind}: {name}")
    assert found.groups == expected.groups, kind


# --- levels and codes ----------------------------------------------------------------------------------------


def test_levels_are_sorted_and_codes_their_places():
    core = bc.all_rows(FRAME, label="y", groups=["county", "age"], **QUIET)
    assert [grouping.name for grouping in core.groups] == ["county", "age"]
    assert core.groups[0].levels == tuple(sorted(set(COUNTY)))
    assert core.groups[1] == Grouping("age", tuple(range(18, 25)))
    assert core.feature_names == ("a", "b")
    assert (np.array(core.groups[0].levels)[core.group[:, 0]] == COUNTY).all()
    assert (np.array(core.groups[1].levels)[core.group[:, 1]] == AGE).all()
    assert core.group.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        core.group[0] = 0


ORDERED = pd.Categorical(COUNTY, categories=sorted(set(COUNTY), reverse=True))


@pytest.mark.parametrize(
    ("given", "levels"),
    [
        (AGE.astype(float), tuple(range(18, 25))),
        (pd.array(AGE, dtype="Int64"), tuple(range(18, 25))),
        (AGE > 20, (False, True)),
        (pl.Series(COUNTY), tuple(sorted(set(COUNTY)))),
        (pa.chunked_array([COUNTY[:99], COUNTY[99:]]), tuple(sorted(set(COUNTY)))),
        (list(COUNTY), tuple(sorted(set(COUNTY)))),
        (pd.Series(ORDERED), tuple(sorted(set(COUNTY), reverse=True))),
        (pd.Series(pd.Categorical(COUNTY, categories=["none", *ORDERED.categories])), tuple(ORDERED.categories)),
    ],
    ids=["floats", "nullable", "booleans", "polars", "arrow", "a list", "a categorical", "unused levels"],
)
def test_levels_of_any_kind(given, levels):
    core = bc.all_rows(X, Y, groups=given, **QUIET)
    assert core.groups[0].levels == levels
    assert {type(level) for level in core.groups[0].levels} <= {str, int, bool}
    assert core.groups[0].name == "group"
    assert (np.array(levels, dtype=object)[core.group[:, 0]] == np.asarray(given, dtype=object)).all()


def test_collections_of_dask_take_groups_beside_them():
    expected = bc.all_rows(X, Y, groups={"county": COUNTY}, **QUIET)
    frame = dd.from_pandas(FRAME[["a", "b", "y"]], npartitions=4)
    beside = dd.from_pandas(FRAME["county"], npartitions=4)
    assert_same(bc.all_rows(frame, label="y", groups=beside, **QUIET), expected, "a series")
    chunks = da.from_array(X, chunks=(1000, 2)), da.from_array(Y, chunks=1000)
    found = bc.all_rows(*chunks, groups={"county": da.from_array(COUNTY, chunks=1000)}, **QUIET)
    assert_same(found, expected, "arrays")
    with pytest.raises(DataError, match="groups of such data must be the name of a column"):
        bc.all_rows(frame, label="y", groups=COUNTY, **QUIET)


@pytest.mark.parametrize("method", METHODS)
@quiet
def test_groups_from_every_source_give_the_same_bits(method, tmp_path):
    options = {"method": method, "random_state": 2, "size": METHODS[method] or "auto", **QUIET}
    columns = {"label": "y", "groups": ["county", "age"]}
    expected = bc.build_coreset(FRAME, **columns, **options)
    assert expected.group.shape == (len(expected), 2)
    if method != "aggregate":
        rows = FRAME.iloc[expected.index]
        assert (np.array(expected.groups[0].levels)[expected.group[:, 0]] == rows.county).all()
    for kind, data in kinds(FRAME, tmp_path).items():
        assert_same(bc.build_coreset(data, **columns, **options), expected, kind)
    arrays = {"county": COUNTY, "age": FRAME.age}
    assert_same(bc.build_coreset(X, Y, groups=arrays, **options), expected, "arrays")
    assert_same(bc.build_coreset(FRAME[["a", "b"]], Y, groups=arrays, **options), expected, "arrays beside a table")

    def blocks():
        return ((X[c], Y[c], None, None, None, {"county": COUNTY[c], "age": AGE[c]}) for c in CUTS)

    def tables():
        return ((FRAME[["age", "a", "county", "b"]][c], Y[c]) for c in CUTS)

    assert_same(bc.build_coreset(blocks, **options), expected, "blocks")
    assert_same(bc.build_coreset(tables, groups=["county", "age"], **options), expected, "blocks of tables")
    if method in ("uniform", "merge_reduce", "aggregate"):
        assert_same(bc.build_coreset(blocks(), **options), expected, "an iterator")
        again = bc.build_coreset(tables(), groups=["county", "age"], **options)
        assert_same(again, expected, "an iterator of tables")


def test_a_formula_takes_groups_from_every_source(tmp_path):
    asked = {"formula": "y ~ a + (1 + a | county)", "method": "aggregate", **QUIET}
    expected = bc.build_coreset(FRAME, **asked)
    assert expected.groups[0].effects == ("1", "a")
    for kind, data in kinds(FRAME, tmp_path).items():
        assert_same(bc.build_coreset(data, **asked), expected, kind)
    asked["formula"] = "a + (1 + a | county)"
    assert_same(
        bc.build_coreset(lambda: ((FRAME.drop(columns="y")[c], Y[c]) for c in CUTS), **asked), expected, "blocks"
    )


@pytest.mark.parametrize("method", ["merge_reduce", "online"])
@quiet
def test_streams_keep_groups_through_a_checkpoint(method, tmp_path):
    def fed(cuts, into):
        for c in cuts:
            into.partial_fit(X[c], Y[c], groups={"county": COUNTY[c], "age": AGE[c]})
        return into

    half = fed(CUTS[:3], bc.stream(method, size=80, random_state=1))
    half.save(tmp_path / "half.npz")
    resumed = fed(CUTS[3:], bc.read_stream(tmp_path / "half.npz")).coreset()
    whole = fed(CUTS, bc.stream(method, size=80, random_state=1)).coreset()
    assert_same(resumed, whole, "a checkpoint")
    assert whole.groups[0].levels == tuple(sorted(set(COUNTY)))
    assert (np.array(whole.groups[0].levels)[whole.group[:, 0]] == COUNTY[whole.index]).all()


def test_counts_and_missing_rows_keep_their_groups():
    frame = FRAME.assign(n=3, county=FRAME.county.where(np.arange(N) % 7 > 0))
    with pytest.raises(DataError, match=r"groups \(column 'county'\) is missing in \d+ of rows 0 to .*missing='drop'"):
        bc.all_rows(frame, label="y", trials="n", groups="county", **QUIET)
    with pytest.warns(UserWarning, match=r"left out 572 of 4,000 rows, that miss 'county' \(572\)"):
        core = bc.all_rows(frame, label="y", trials="n", groups="county", missing="drop", **QUIET)
    assert (np.array(core.groups[0].levels)[core.group[:, 0]] == COUNTY[core.index]).all()
    assert core.weight_total == 3 * (N - 572)


# --- new rows ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def merged():
    return bc.build_coreset(FRAME, formula="y ~ a + (1 | county)", method="aggregate", **QUIET)


@pytest.mark.parametrize("levels", [range(2**60, 2**60 + 30), [f"é{k}" for k in range(30)], [False, True]])
@quiet
def test_files_keep_levels_of_every_kind_beside_rows_of_no_group(levels, tmp_path):
    """Whole numbers beside missing ones are floats to pandas, which have 53 bits."""
    frame = FRAME.assign(county=np.array(levels)[np.arange(N) % len(levels)])
    core = bc.build_coreset(
        frame, formula="y ~ a + (1 | county)", method="multilevel", random_state=0, progressbar=False
    )
    assert (core.group == NO_GROUP).any()
    core.save(tmp_path / "core.parquet")
    assert_same(bc.read_coreset(tmp_path / "core.parquet"), core, "a file")


def test_files_keep_groups(merged, tmp_path):
    core = bc.build_coreset(FRAME, formula="y ~ a + (1 + a | county) + (1 | age)", method="aggregate", **QUIET)
    core = replace(core, group=np.where(np.arange(len(core))[:, None] == 3, NO_GROUP, core.group))
    core.save(tmp_path / "core.parquet")
    again = bc.read_coreset(tmp_path / "core.parquet")
    assert_same(again, core, "a file")
    assert (again.design, again.rows_digest) == (core.design, core.rows_digest)
    assert again.groups[0].effects == ("1", "a")
    assert list(core.to_frame().columns) == ["Intercept", "a", "y", "weight", "county", "age"]
    assert core.to_frame()["county"].isna().sum() == 1
    assert re.search(r"group +county \(30 levels\)\n +group +age \(7 levels\)", repr(core))
    changed = replace(core, group=core.group[::-1])
    assert changed.rows_digest != core.rows_digest
    with pytest.raises(ValueError, match="rows have no groups; those of their design: 'county', 'age'"):
        replace(core, group=None)
    both = bc.Coreset.concat([core, core])
    assert both.group.shape == (2 * len(core), 2)
    with pytest.raises(ValueError, match="coresets differ in design"):
        bc.Coreset.concat([core, merged])


def test_merging_keeps_the_log_likelihood_of_groups(merged):
    """Rows of two groups are never merged; without the groups in the key the sum is far off, the negative control."""
    assert len(merged) < N / 2
    u, beta = RNG.normal(size=30), np.array([0.3, -0.8])
    eta = beta[0] + FRAME.a.to_numpy() * beta[1] + u[merged_codes(FRAME)]
    full = -np.logaddexp(0.0, -(2 * Y - 1) * eta).sum()

    def of(core, codes):
        return -core.weights @ np.logaddexp(0.0, -core.y * (core.X @ beta + u[codes]))

    assert of(merged, merged.group[:, 0]) == pytest.approx(full, rel=1e-12)
    blind = bc.build_coreset(FRAME, formula="y ~ a", method="aggregate", **QUIET)
    assert abs(of(blind, merged_codes(FRAME)[blind.index]) - full) > 20


def merged_codes(frame):
    return pd.Categorical(frame.county).codes


def test_a_coreset_of_a_coreset_keeps_groups(merged):
    assert_same(bc.build_coreset(merged, method="aggregate", **QUIET), merged, "a coreset")
    with pytest.warns(UserWarning, match=r"method='uniform' .* and \d+ of 30 groups of 'county' have no row"):
        fewer = bc.build_coreset(merged, method="uniform", size=20, random_state=1, **QUIET)
    assert fewer.groups == merged.groups
    assert set(fewer.group[:, 0]) <= set(range(30))


def test_new_rows_have_the_codes_of_the_coreset(merged, tmp_path):
    few = FRAME[FRAME.county.isin(["county 7", "county 3"])].head(50)
    codes = np.array([merged.groups[0].levels.index(name) for name in few.county])
    for kind, data in {"table": few, **kinds(few, tmp_path)}.items():
        found = bc.all_rows(data, design=merged.design, **QUIET)
        np.testing.assert_array_equal(found.group[:, 0], codes, err_msg=kind)
        assert found.design == merged.design
    blocks = bc.all_rows(lambda: [(few[["a", "county"]], few.y)], groups="county", design=merged.design, **QUIET)
    np.testing.assert_array_equal(blocks.group[:, 0], codes)


def test_new_rows_as_arrays_and_blocks_have_the_codes_of_the_coreset(merged):
    core = bc.all_rows(X, Y, groups={"county": COUNTY, "age": AGE}, **QUIET)
    few = slice(7, 40)
    expected = core.group[few]
    found = bc.all_rows(X[few], Y[few], groups={"c": COUNTY[few], "a": AGE[few]}, design=core.design, **QUIET)
    np.testing.assert_array_equal(found.group, expected)
    blocks = [(X[few], Y[few], None, None, None, {"c": COUNTY[few], "a": AGE[few]})]
    found = bc.all_rows(lambda: blocks, design=core.design, **QUIET)
    np.testing.assert_array_equal(found.group, expected)
    with pytest.raises(DataError, match="groups has 1 factors, the design 2: 'county', 'age'; give the same"):
        bc.all_rows(X[few], Y[few], groups=AGE[few], design=core.design, **QUIET)
    with pytest.raises(DataError, match="groups is missing: the design has 'county', 'age'"):
        bc.all_rows(lambda: [block[:2] for block in blocks], design=core.design, **QUIET)


def test_a_group_never_seen_is_an_error_that_names_it_or_asked_for(merged, tmp_path):
    new = FRAME.head(20).assign(county=["county 1"] * 12 + ["Atlantis"] * 8)
    for kind, data in kinds(new, tmp_path).items():
        with pytest.raises(DataError, match=r"'county'\) has the level 'Atlantis', none of the 30 known .*in row 12"):
            bc.all_rows(data, design=merged.design, **QUIET)
        found = bc.all_rows(data, design=merged.design, new_groups=True, **QUIET)
        assert (found.group[12:] == NO_GROUP).all(), kind
        assert (found.group[:12] >= 0).all(), kind
    with pytest.raises(DataError, match="the level 'Atlantis', none of the 30 known"):
        bc.all_rows(lambda: [(new[["a", "county"]], new.y)], groups="county", design=merged.design, **QUIET)
    with pytest.raises(DataError, match=r"is int64, and its levels are string \('county 0', "):
        bc.all_rows(new.assign(county=1), design=merged.design, **QUIET)
    with pytest.raises(DataError, match="groups is missing: the design has 'county'; give the group of each row"):
        bc.all_rows(X[:20], Y[:20], design=bc.all_rows(X, Y, groups={"county": COUNTY}, **QUIET).design, **QUIET)
    with pytest.raises(DataError, match="groups is given, but the design has none"):
        bc.all_rows(X, Y, groups=AGE, design=bc.all_rows(X, Y, **QUIET).design, **QUIET)
    with pytest.raises(ValueError, match="new_groups=True, but design is missing"):
        bc.all_rows(X, Y, groups=AGE, new_groups=True, **QUIET)


# --- bad input -----------------------------------------------------------------------------------------------

BAD = {
    "fractions": ({"groups": X[:, 0]}, r"holds numbers that are not whole.*make bins"),
    "dates": ({"groups": pd.date_range("2020", periods=N)}, r"is timestamp.*turn it into text"),
    "one group": ({"groups": np.zeros(N, int)}, "has one level only, 0: it tells no rows apart; leave it out"),
    "every row its own": (
        {"groups": np.arange(N)},
        "has 4,000 levels, one for each row.*name a column whose values several rows share",
    ),
    "wrong length": ({"groups": COUNTY[1:]}, r"groups has shape \(3999,\); it must be \(4000,\), one level for each"),
    "wrong length by name": ({"groups": {"c": COUNTY[1:]}}, r"groups\['c'\] has shape \(3999,\)"),
    "two columns": ({"groups": X}, r"groups has shape \(4000, 2\)"),
    "missing": ({"groups": np.where(AGE > 20, COUNTY, None)}, r"is missing in \d+ of rows .*'unknown'"),
    "a name": ({"groups": "county"}, "groups='county' names a column, but data is an array"),
    "nothing": ({"groups": {}}, "groups is an empty dict"),
    "mixed": ({"groups": [1, "a"] * (N // 2)}, "mixed types"),
}


@pytest.mark.parametrize("kind", BAD)
def test_groups_that_cannot_be_used_are_refused_by_name(kind):
    given, message = BAD[kind]
    with pytest.raises(DataError, match=message):
        bc.build_coreset(X, Y, **given, **QUIET)


BAD_COLUMNS = {
    "no such column": ({"groups": "state", "label": "y"}, "groups='state' is not a column of the data"),
    "the label": ({"groups": "y", "label": "y"}, "label and groups both name the column 'y'"),
    "twice": ({"groups": ["age", "age"], "label": "y"}, r"groups\[0\] and groups\[1\] both name the column 'age'"),
    "a feature": ({"groups": "a", "formula": "y ~ a"}, "'a' is a grouping factor and a feature too; leave one out"),
    "a term beside": ({"groups": "age", "formula": "y ~ a + (1 | county)"}, "groups is given beside formula="),
    "one level": ({"groups": "one", "label": "y"}, "'one'\\) has one level only"),
    "every row": ({"groups": "id", "label": "y"}, "'id'\\) has 4,000 levels, one for each row"),
}


@pytest.mark.parametrize("source", ["pandas", "parquet", "lazy", "dask"])
@pytest.mark.parametrize("kind", BAD_COLUMNS)
def test_columns_of_groups_that_cannot_be_used_are_refused_by_name(kind, source, tmp_path):
    given, message = BAD_COLUMNS[kind]
    frame = FRAME.assign(one="x", id=np.arange(N))
    with pytest.raises(DataError, match=message):
        bc.build_coreset({"pandas": frame, **kinds(frame, tmp_path)}[source], **given, **QUIET)


def test_each_row_may_be_a_group_of_trials():
    core = bc.all_rows(X, Y, trials=np.full(N, 3), groups=np.arange(N), **QUIET)
    assert len(core.groups[0]) == N


@pytest.mark.parametrize("source", ["pandas", "parquet", "lazy", "dask", "blocks"])
def test_more_groups_than_memory_allows_are_refused_with_their_bytes(source, tmp_path, monkeypatch):
    monkeypatch.setattr(factors, "MAX_GROUPS_BYTES", 25 * factors.GROUP_BYTES)
    data = kinds(FRAME, tmp_path) | {"pandas": FRAME, "blocks": lambda: [(FRAME.drop(columns="y"), Y)]}
    asked = {"groups": "county"} if source == "blocks" else {"groups": "county", "label": "y"}
    with pytest.raises(
        DataError, match=r"'county'\) has 30 levels or more, which take 12,000 bytes.*merge small groups"
    ):
        bc.build_coreset(data[source], method="uniform", size=50, **asked, **QUIET)


def test_blocks_of_other_groups_are_refused():
    with pytest.raises(DataError, match="block 1 has other groups than the blocks before it, 'group'"):
        bc.build_coreset(lambda: [(X, Y, None, None, None, AGE), (X, Y)], **QUIET)
    hole = np.where(np.arange(N) == 2, np.nan, AGE)
    with pytest.raises(
        DataError, match=r"block 1: groups \(column 'group'\) is missing in 1 of rows 0 to 3999, first in row 2"
    ):
        bc.build_coreset(lambda: [(X, Y, None, None, None, AGE), (X, Y, None, None, None, hole)], **QUIET)
    with pytest.raises(DataError, match="block 0: groups='state' is not a column of the data"):
        bc.build_coreset(lambda: [(FRAME, Y)], groups="state", **QUIET)
    with pytest.raises(DataError, match="names a column of X, so that X must be a table"):
        bc.build_coreset(lambda: [(X, Y)], groups="state", **QUIET)
    with pytest.raises(DataError, match="must be the name of a column"):
        bc.build_coreset(lambda: [(X, Y)], groups=AGE, **QUIET)


def test_names_that_the_file_needs_are_refused():
    with pytest.raises(DataError, match="groups='x0' has the name of a feature"):
        bc.build_coreset(X, Y, groups={"x0": AGE}, **QUIET)
    with pytest.raises(DataError, match="data has a column 'a' beside groups; rename it"):
        bc.build_coreset(FRAME, label="y", groups={"a": AGE}, **QUIET)


@pytest.mark.parametrize("name", ["chain", "draw", "feature", "beta", "coef"])
def test_factors_named_as_posteriors_name_their_own_are_refused_before_a_pass(name, tmp_path):
    frame = FRAME.rename(columns={"county": name})
    frame.loc[0, "a"] = np.nan  # which a pass would find
    told = f"groups .column '{name}'. has the name of a dimension or variable of posteriors; rename the column, as"
    for data in (frame, *kinds(frame, tmp_path).values()):
        for given in ({"label": "y", "groups": name}, {"formula": f"y ~ a + (1 | age) + (1 + a | {name})"}):
            with pytest.raises(DataError, match=told):
                bc.build_coreset(data, **given, **QUIET)
    block = (X, Y, None, None, None, {name: COUNTY})
    for data in (lambda: [block], iter([block])):
        with pytest.raises(DataError, match=told):
            bc.build_coreset(data, **QUIET)
    with pytest.raises(DataError, match=told):
        bc.build_coreset(X, Y, groups={name: COUNTY}, **QUIET)
    with pytest.raises(DataError, match=told):
        bc.stream(size=60).partial_fit(X, Y, groups={name: COUNTY})


@pytest.mark.parametrize("name", ["u_county", "sigma_county", "rho_county", "county_effect", "county_pair"])
def test_factors_named_as_another_s_effects_are_refused(name):
    with pytest.raises(DataError, match=f"groups .column '{name}'. has the name of a dimension or variable"):
        bc.build_coreset(X, Y, groups={"county": COUNTY, name: AGE}, **QUIET)
    assert bc.all_rows(X, Y, groups={name: AGE}, **QUIET).groups[0].name == name  # alone it is like any other


MISSING = {
    "nothing": np.full(N, None),
    "text": pd.array([None] * N, dtype="string"),
    "a category": pd.Categorical([None] * N, categories=["x", "y"]),
    "numbers": np.full(N, np.nan),
}


@pytest.mark.parametrize("missing", ["raise", "drop"])
@pytest.mark.parametrize("kind", MISSING)
def test_groups_that_are_missing_in_every_row_are_refused_by_name(kind, missing, tmp_path):
    frame = FRAME.assign(county=MISSING[kind])
    told = r"groups \(column 'county'\) is missing in every row: it tells no rows apart; leave it out"
    for data in (frame, *kinds(frame, tmp_path).values()):
        with pytest.raises(DataError, match=told):
            bc.build_coreset(data, formula="y ~ a + (1 | county)", missing=missing, **QUIET)
    with pytest.raises(DataError, match=told):
        bc.build_coreset(X, Y, groups={"county": MISSING[kind]}, missing=missing, **QUIET)


@pytest.mark.parametrize("kind", MISSING)
def test_new_rows_whose_groups_are_all_missing_are_refused_by_name(kind):
    design = bc.all_rows(FRAME, formula="y ~ a + (1 | county)", **QUIET).design
    told = rf"groups \(column 'county'\) is missing in {N} of rows 0 to {N - 1}, first in row 0"
    with pytest.raises(DataError, match=told):
        bc.all_rows(FRAME.assign(county=MISSING[kind]), design=design, **QUIET)


def test_private_coresets_refuse_groups():
    rows = WeightedData(X, (2 * Y - 1).astype(np.int8), np.ones(N), np.arange(N), group=AGE[:, None])
    with pytest.raises(DataError, match="have groups, which a private coreset would reveal"):
        private_coreset(rows, n_clusters=4, radius=10.0, epsilon=1.0)


# --- rows ----------------------------------------------------------------------------------------------------


def test_rows_carry_their_groups():
    rows = WeightedData(X, (2 * Y - 1).astype(np.int8), np.ones(N), np.arange(N), group=AGE[:, None])
    which = RNG.permutation(N)[:50]
    shifted = replace(rows, offset=X[:, 0])
    for kind, found in {
        "take": rows.take(which),
        "mirrored": rows.mirrored(-1).take(which),
        "weights": rows.with_weights(np.full(N, 2.0)).take(which),
        "lifted": append_offset(shifted).take(which),
        "stack": stack([rows.take(which[:20]), rows.take(which[20:])]),
    }.items():
        np.testing.assert_array_equal(found.group[:, 0], AGE[which], err_msg=kind)
    assert stack([bc.all_rows(X, Y, **QUIET)] * 2).group is None


def test_a_list_of_text_is_levels_or_names_as_it_fits():
    assert GivenGroups.of(["a", "b", "a"], 3).names == ("group",)
    assert GivenGroups.of(["a", "b"], 2, ("a", "b")).names == ("a", "b")
    assert GivenGroups.of(["a", "b"], None).names == ("a", "b")


@pytest.mark.parametrize("levels", [(3, 5, 9), (-(2**63), -(2**63) + 2), (2**63 - 3, 2**63 - 1)])
def test_codes_by_a_table_are_those_of_the_hash_table(levels, monkeypatch):
    """Numbers just beyond the levels and far from them, missing ones, and columns of other types."""
    limits = -(2**63), 2**63 - 1
    near = [level + step for level in levels for step in (-1, 0, 1) if limits[0] <= level + step <= limits[1]]
    column = pa.array([*near, 0, *limits, None], pa.int64())
    columns = [column, column.dictionary_encode(), pa.array([4, 5, None], pa.uint8()), pa.array([5.0, np.nan])]

    def codes():
        grouper = Grouper(Grouping("g", levels), new=True)
        return [grouper.codes(each, 0, drop=True).tolist() for each in columns]

    by_table = codes()
    grouper = Grouper(Grouping("g", levels), new=True)
    grouper.codes(column, 0, drop=True)
    there = pickle.loads(pickle.dumps(grouper))
    assert "_by_number" in vars(grouper)
    assert "_by_number" not in vars(there)
    assert there.codes(column, 0, drop=True).tolist() == by_table[0]
    assert {NO_GROUP, MISSING_GROUP, 0, 1} <= set(by_table[0])
    monkeypatch.setattr(grouping_factors, "_NUMBERS_PER_LEVEL", -1)
    assert codes() == by_table
