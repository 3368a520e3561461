"""Levels that no row has: left out where only a type declares them, warned of where a formula or rows left out do."""

import warnings

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bayescore as bc
from bayescore.validation import DataError

N = 600
RNG = np.random.default_rng(2)
DEVICE = RNG.choice(["fax", "phone", "tablet"], N)
FRAME = pd.DataFrame({"age": RNG.normal(size=N), "device": DEVICE, "y": RNG.integers(0, 2, N)})
FRAME = FRAME.assign(visits=RNG.integers(0, 3, N), weight_=RNG.uniform(1.0, 2.0, N))
DECLARED = FRAME.assign(device=pd.Categorical(DEVICE, categories=["fax", "pager", "phone", "tablet"]))
ABSENT = "no row that counts has the level, or the combination of levels, {}: the prior alone tells its coefficient"
QUIET = {"progressbar": False}


def told(*columns):
    return ABSENT.format(", ".join(map(repr, columns))).replace("[", r"\[").replace("(", r"\(").replace(")", r"\)")


def kinds(frame, folder):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table, folder / "rows.parquet")
    pq.write_table(table.replace_schema_metadata(None), folder / "plain.parquet")
    enum = pl.Enum(["fax", "pager", "phone", "rare", "tablet"])
    return {
        "pandas": frame,
        "arrow": table,
        "dictionaries": table.replace_schema_metadata(None),
        "polars": pl.from_pandas(frame),
        "enum": pl.from_pandas(frame).with_columns(pl.col("device").cast(pl.String).cast(enum)),
        "parquet": folder / "rows.parquet",
        "plain parquet": folder / "plain.parquet",
        "dask": dd.from_pandas(frame, npartitions=3),
        "dask of files": dd.read_parquet(folder / "rows.parquet"),
    }


@pytest.mark.filterwarnings("ignore:columns of text are coded")
def test_levels_that_only_a_type_declares_are_left_out(tmp_path):
    for kind, data in kinds(DECLARED, tmp_path).items():
        for given, columns in (
            ({"formula": "y ~ device"}, ("Intercept", "device[phone]", "device[tablet]")),
            ({"formula": "y ~ C(device) - 1"}, tuple(f"C(device)[{level}]" for level in ("fax", "phone", "tablet"))),
            ({"label": "y"}, ("age", "device[phone]", "device[tablet]", "visits", "weight_")),
        ):
            assert bc.all_rows(data, **given, **QUIET).feature_names == columns, kind


def test_new_rows_may_declare_a_level_and_not_have_it():
    core = bc.all_rows(FRAME, formula="y ~ age * device", **QUIET)
    np.testing.assert_array_equal(core.design.transform(DECLARED), core.X)
    with pytest.raises(DataError, match="column 'device' has the level 'pager' in row 0"):
        core.design.transform(DECLARED.assign(device="pager"))


@pytest.mark.parametrize(
    ("term", "absent"),
    [
        ("C(device, levels=['fax', 'phone', 'tablet', 'pager'])", "pager"),
        ("C(device, Sum, levels=['fax', 'phone', 'pager', 'tablet'])", "pager"),
        ("C(device, Treatment('pager'), levels=['pager', 'fax', 'phone', 'tablet'])", "pager"),
        ("C(visits, levels=[0, 1, 2, 7])", 7),
    ],
)
def test_levels_that_a_formula_lists_and_no_row_has_are_warned_of(term, absent):
    with pytest.warns(UserWarning, match=told(f"{term}[{absent}]").replace("'", "[\"']")) as caught:
        core = bc.all_rows(FRAME, formula=f"y ~ age + {term}", **QUIET)
    assert len(caught) == 1
    assert core.n_features == 5  # the level keeps its column: new rows may have it
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        listed = term.replace(", 'pager'", "").replace("'pager', ", "").replace(", 7", "")
        bc.all_rows(FRAME, formula=f"y ~ age + {listed.replace('pager', 'fax')}", **QUIET)


RARE = FRAME.assign(device=np.where(np.arange(N) < 9, "rare", DEVICE))
FIRST = FRAME.assign(device=np.where(np.arange(N) < 9, "a fax", DEVICE))
LEFT_OUT = {
    "weights": (lambda frame: frame.assign(weight_=np.where(np.arange(N) < 9, 0.0, 0.7)), {"weights": "weight_"}),
    "missing": (lambda frame: frame.assign(age=frame["age"].where(np.arange(N) >= 9)), {"missing": "drop"}),
}


@pytest.mark.filterwarnings("ignore:columns of text are coded", "ignore:missing='drop' left out")
@pytest.mark.parametrize("left_out", LEFT_OUT)
@pytest.mark.parametrize(
    ("frame", "columns"),
    [(RARE, ("device[rare]", "age:device[rare]")), (FIRST, ("device[a fax]",))],
    ids=["a level", "the first level"],
)
def test_levels_of_rows_that_are_left_out_are_warned_of(frame, columns, left_out, tmp_path):
    change, options = LEFT_OUT[left_out]
    for data in kinds(change(frame), tmp_path).values() if frame is RARE else [change(frame)]:
        with pytest.warns(UserWarning, match=told(*columns)):
            core = bc.all_rows(data, formula="y ~ age * device", **options, **QUIET)
        with pytest.warns(UserWarning, match=told(columns[0])) as caught:
            bc.all_rows(data, label="y", intercept=True, **options, **QUIET)
        assert not any("device" in str(other.message) and "constant" in str(other.message) for other in caught)
    assert core.design.transform(frame.assign(age=0.0)).shape == (N, 8)  # predictions know the level


@pytest.mark.parametrize(
    ("term", "frame", "base"), [("C(device, Treatment('rare'))", "RARE", "rare"), ("C(device)", "FIRST", "a fax")]
)
def test_bases_of_rows_that_are_left_out_are_warned_of(term, frame, base):
    """A level that others are coded against has no column of its own."""
    change, options = LEFT_OUT["weights"]
    with pytest.warns(UserWarning, match=told(f"{term}[{base}]")):
        bc.all_rows(change({"RARE": RARE, "FIRST": FIRST}[frame]), formula=f"y ~ age + {term}", **options, **QUIET)


def test_combinations_that_no_row_has_are_warned_of():
    frame = FRAME.assign(visits=np.where(DEVICE == "phone", 0, FRAME["visits"]))
    with pytest.warns(UserWarning, match=told("device[phone]:C(visits)[1]", "device[phone]:C(visits)[2]")):
        bc.all_rows(frame, formula="y ~ device * C(visits)", **QUIET)


@pytest.mark.filterwarnings("ignore:columns of text are coded")
def test_levels_that_all_occur_are_no_matter():
    """Weights of ten orders of magnitude, and a first level of one row, are no alarm."""
    for device in (DEVICE, np.where(np.arange(N) < 1, "a fax", DEVICE)):
        for weights in (RNG.exponential(size=N), 10.0 ** RNG.uniform(-5, 5, N), np.full(N, 1.0 / 3.0)):
            frame = FRAME.assign(device=device, weight_=weights)
            bc.all_rows(frame, formula="y ~ age * device", weights="weight_", **QUIET)
            bc.all_rows(frame, label="y", weights="weight_", intercept=True, **QUIET)


@pytest.mark.parametrize("term", ["same", "I(same * 2)"])
def test_a_formula_warns_of_a_constant_column(term):
    frame = FRAME.assign(same=3.0)
    with pytest.warns(UserWarning, match="is constant, as the intercept is: the prior alone") as caught:
        core = bc.all_rows(frame, formula=f"y ~ age + {term}", **QUIET)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        bc.all_rows(FRAME, formula="y ~ age + visits", **QUIET)
        bc.all_rows(frame, formula=f"y ~ 0 + age + {term}", **QUIET)  # it takes the intercept's place
        bc.all_rows(frame, design=core.design, **QUIET)  # other rows of the design may have other values


@pytest.mark.parametrize("term", ["log(age)", "center(log(age))"])
def test_dropping_keeps_rows_whose_term_is_not_finite_and_says_so(term):
    frame = FRAME.assign(age=FRAME["age"].abs() + 0.1).astype({"age": float})
    frame.loc[9, "age"] = np.nan
    bad = frame.assign(age=frame["age"].where(~frame.index.isin([2, 30]), -1.0))
    told = r"'log\(age\)' is nan in row 2, though its columns are finite; .* 2 of the 599 rows.*missing='drop'.*filter"
    with pytest.warns(UserWarning, match="left out 1"), pytest.raises(DataError, match=told):
        bc.all_rows(bad, formula=f"y ~ {term}", missing="drop", **QUIET)
    with pytest.warns(UserWarning, match="left out 1"):
        assert len(bc.all_rows(frame, formula=f"y ~ {term}", missing="drop", **QUIET)) == 599
    with pytest.raises(DataError, match="column 'age' is nan in row 9; drop such rows"):
        bc.all_rows(frame, formula=f"y ~ {term}", **QUIET)
