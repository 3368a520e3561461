"""Designs by formulas: R's coefficients, formulaic's matrices to the last bit from every source, kept as JSON."""

import json
import pickle
import warnings
from pathlib import Path

import dask.dataframe as dd
import formulaic
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bayescore as bc
from bayescore.data.design import Design
from bayescore.data.formula_design import FormulaDesign, read_design
from bayescore.data.open import open_designed
from bayescore.types import stack
from bayescore.validation import DataError
from tests.hand_made import fit_of
from tests.published.formula_rows import formula_rows

ROWS = formula_rows()
RAW = ROWS.drop(columns="clicked")
GLM = json.loads((Path(__file__).parents[1] / "published" / "glm.json").read_text())
LONG = "clicked ~ age * device + log(price) + C(visits):region + bs(age, df=5) + poly(price, 2)"


def full(data, formula=LONG, **options):
    return bc.all_rows(data, formula=formula, progressbar=False, **options)


@pytest.mark.parametrize("case", GLM, ids=lambda case: case["formula"])
def test_coefficients_are_those_of_glm_in_r(case):
    found = full(ROWS, f"clicked ~ {case['formula']}")
    expected = np.array(case["coefficients"])
    np.testing.assert_allclose(bc.find_mle(found).beta, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("case", [c for c in GLM if not c["formula"].startswith("0")], ids=lambda case: case["formula"])
def test_raw_coefficients_of_standardised_columns_are_those_of_glm_in_r(case):
    found = full(ROWS, f"clicked ~ {case['formula']}", standardize=True)
    expected = np.array(case["coefficients"])
    coef = found.design.raw_coefficients(bc.find_mle(found).beta)
    np.testing.assert_allclose(coef, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


FORMULAS = [
    *(case["formula"] for case in GLM if "scale" not in case["formula"]),
    "cr(age, df=4) + cc(price, df=4) + cs(visits, knots=[1, 2], constraints='center')",
    "C(device, Helmert):age + C(region, Diff) - 1",
    "bs(log(price), df=4, include_intercept=True, lower_bound=-1, upper_bound=4)",
    "bs(age, knots=[30], lower_bound=30, upper_bound=50, extrapolation='clip')",
    "{age**2}:device:region + log(price):{age + 1}",
    "I(age > 40) + I(device == 'phone')",
    "C(device, levels=['phone', 'tablet', 'desktop']) + C(visits, Treatment(3))",
]


@pytest.mark.parametrize("terms", FORMULAS)
def test_the_matrix_is_that_of_formulaic_on_the_whole_frame_to_the_last_bit(terms):
    expected = formulaic.model_matrix(terms, ROWS)
    found = full(ROWS, f"clicked ~ {terms}")
    assert found.feature_names == tuple(name.replace("[T.", "[") for name in expected.columns)
    np.testing.assert_array_equal(found.X, expected.to_numpy(dtype=float))


@pytest.mark.parametrize(
    "terms",
    ["scale(age) + center(log(price)) + standardize(visits)", "scale(age, False) + scale(price, center=2, scale=3)"],
)
def test_centers_and_scales_are_those_of_formulaic_but_for_its_rounding(terms):
    expected = formulaic.model_matrix(terms, ROWS)
    np.testing.assert_allclose(full(ROWS, f"clicked ~ {terms}").X, expected.to_numpy(), rtol=1e-13, atol=1e-13)


def blocks_of(size, make=pd.DataFrame, n=600):
    parts = [slice(i, min(i + size, n)) for i in range(0, n, size)]
    return lambda: ((make(RAW[part]), ROWS.clicked[part]) for part in parts)


def parquet(folder, *cuts, **options):
    folder.mkdir()
    for i, part in enumerate(np.split(np.arange(len(ROWS)), cuts)):
        ROWS.iloc[part].to_parquet(folder / f"part-{i}.parquet", **options)
    return folder


SOURCES = {
    "arrow": lambda path: pa.Table.from_pandas(ROWS),
    "polars": lambda path: pl.from_pandas(ROWS),
    "categoricals": lambda path: ROWS.astype({"device": "category", "region": "category"}),
    "parquet": lambda path: parquet(path / "rows", row_group_size=97),
    "parquet in parts": lambda path: parquet(path / "rows", 5, 310),
    "dask": lambda path: dd.from_pandas(ROWS, npartitions=7),
    "dask from parquet": lambda path: dd.read_parquet(parquet(path / "rows", 211)),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_design_and_the_rows_of_the_frame(kind, tmp_path):
    found, expected = full(SOURCES[kind](tmp_path)), full(ROWS)
    assert found.design == expected.design
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.y, expected.y)


@pytest.mark.parametrize(("size", "n"), [(1, 30), (45, 600), (600, 600)])
def test_blocks_give_it_however_they_are_cut(size, n):
    found, expected = full(blocks_of(size, n=n)), full(ROWS[:n])
    assert found.design == expected.design
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(full(blocks_of(size, pl.from_pandas, n)).X, expected.X)


@pytest.mark.parametrize("block_rows", [7, 256])
def test_blocks_of_passes_give_it_too(block_rows):
    dataset = open_designed(ROWS, formula=LONG)
    dataset._block_rows = block_rows
    parts = list(dataset.map(lambda _, block: block, canonical=True))
    assert len(parts) == -(-len(ROWS) // block_rows)
    np.testing.assert_array_equal(stack(parts).X, full(ROWS).X)


def test_folders_of_a_partition_are_levels(tmp_path):
    for device, part in ROWS.groupby("device"):
        (tmp_path / f"device={device}").mkdir()
        part.drop(columns="device").to_parquet(tmp_path / f"device={device}" / "part.parquet")
    rows = ROWS.sort_values("device", kind="stable").reset_index(drop=True)
    found = full(tmp_path, "clicked ~ device * age + C(region)")
    np.testing.assert_array_equal(found.X, full(rows, "clicked ~ device * age + C(region)").X)


def test_an_array_has_the_names_of_its_columns():
    X = ROWS[["age", "price"]].to_numpy()
    found = full(X, "y ~ log(x1) * x0", y=ROWS.clicked)
    assert found.feature_names == ("Intercept", "log(x1)", "x0", "log(x1):x0")
    np.testing.assert_array_equal(found.X[:, 1], np.log(X[:, 1]))
    named = full(ROWS[["age", "price"]], "~ age", y=ROWS.clicked)
    assert named.design.raw_names == ("age",)


def test_a_coreset_keeps_and_shows_its_formula(tmp_path):
    core = bc.build_coreset(ROWS, formula=LONG, method="uniform", size=300, random_state=0, progressbar=False)
    assert LONG in repr(core)
    assert LONG in core._repr_html_()
    core.save(tmp_path / "core.parquet")
    again = bc.read_coreset(tmp_path / "core.parquet")
    assert again.design == core.design
    np.testing.assert_array_equal(again.X, core.X)
    assert isinstance(again.design, FormulaDesign)
    assert isinstance(read_design(Design(("a",)).to_dict()), Design)
    assert pickle.loads(pickle.dumps(core.design)) == core.design
    # rows of the coreset's data that are not in it have levels that the design knows
    new = full(ROWS[-3:], None, design=again.design)
    np.testing.assert_array_equal(new.X, full(ROWS).X[-3:])
    assert full(core, None).design == core.design


def test_from_formula_to_certificate_and_prediction(tmp_path):
    formula = "clicked ~ age * device + log(price)"
    ROWS.to_parquet(tmp_path / "rows.parquet")
    core = bc.build_coreset(tmp_path / "rows.parquet", formula=formula, size=200, random_state=0, progressbar=False)
    idata = bc.sample(core, sampler="mala", draws=300, tune=300, random_seed=1, progressbar=False)
    certificate = bc.certify(idata, core, tmp_path / "rows.parquet", progressbar=False)
    assert tuple(certificate.coordinates.index) == core.feature_names
    assert certificate.pareto_k < 0.7
    new = RAW[["price", "device", "age"]].sample(50, random_state=0)  # by name, in any order
    fit = fit_of(idata, core)
    found = fit.predict(new)
    p = 1.0 / (1.0 + np.exp(-idata.posterior["beta"].to_numpy().reshape(-1, 7) @ full(ROWS, formula).X[new.index].T))
    np.testing.assert_allclose(found["mean"], p.mean(axis=0), rtol=1e-12)
    assert list(found.index) == list(new.index)
    with pytest.raises(DataError, match="column 'device' has the level 'watch' in row 1"):
        fit.predict(new.assign(device=["phone", "watch"] * 25))
    with pytest.raises(DataError, match="X lacks the column 'price'"):
        fit.predict(new.drop(columns="price"))
    with pytest.raises(DataError, match="'device' holds text; give a data frame"):
        fit.predict(np.zeros((2, 3)))


@pytest.mark.parametrize("data", [ROWS.assign(device="watch"), blocks_of(50)], ids=["table", "blocks"])
def test_levels_that_a_design_does_not_know_are_named(data):
    design = full(ROWS[ROWS.device != "phone"], "clicked ~ device").design
    with pytest.raises(DataError, match=r"'device' has the level '(watch|phone)' in row \d+, .*'desktop', 'tablet'"):
        full(data, None, design=design)


def test_levels_of_numbers_that_a_design_does_not_know_are_named():
    design = full(ROWS[ROWS.visits < 4], "clicked ~ C(visits)").design
    with pytest.raises(
        DataError, match=r"C\(visits\) has the level 4\.0, which is not one of those known \(0, 1, 2, 3\)"
    ):
        full(ROWS, None, design=design)


def test_weights_do_not_move_centers_and_knots():
    weights = np.linspace(1.0, 3.0, len(ROWS))
    found = full(ROWS, "clicked ~ scale(age) + bs(price, df=4)", weights=weights)
    np.testing.assert_array_equal(found.X, full(ROWS, "clicked ~ scale(age) + bs(price, df=4)").X)
    assert found.weight_total == pytest.approx(weights.sum())


def test_standardize_scales_the_columns_of_a_formula():
    found = full(ROWS, "clicked ~ age + device", standardize=True)
    np.testing.assert_allclose(found.X.mean(axis=0), [1, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(found.X.std(axis=0), [0, 1, 1, 1], atol=1e-12)
    np.testing.assert_array_equal(full(ROWS[:9], None, design=found.design).X, found.X[:9])


WRONG = {
    "a column that is not there": ("clicked ~ age + hight", ROWS, {}, "the data have no feature 'hight'"),
    "of an array": ("y ~ x7", np.zeros((4, 2)), {"y": [0, 1, 0, 1]}, "names 'x7', no column of the data"),
    "two labels": ("clicked ~ age", ROWS, {"label": "region"}, "label='region' and the left side .* differ"),
    "y beside the label": ("clicked ~ x0", np.zeros((2, 1)), {"y": [0, 1]}, "'clicked', but y, .* is given"),
    "no label": ("age + price", ROWS, {}, "label is missing"),
    "numbers of text": (
        "clicked ~ scale(device)",
        ROWS,
        {},
        r"scale\(device\) is of column 'device', which holds text",
    ),
    "a logarithm of text": ("clicked ~ log(device)", ROWS, {}, r"cannot be computed: .*`log\(device\)`"),
    "a logarithm of 0": ("clicked ~ log(visits)", ROWS, {}, r"'log\(visits\)' is -inf in row 7, though"),
    "learnt of it": ("clicked ~ center(log(visits))", ROWS, {}, r"'log\(visits\)' is -inf in row 7, though"),
    "one level": ("clicked ~ age + region", ROWS[ROWS.region == "north"], {}, "'region' has one level only, 'north'"),
    "one level of numbers": ("clicked ~ C(one)", ROWS.assign(one=1), {}, r"C\(one\) has one level only, 1"),
    "many levels": ("clicked ~ C(n)", pd.concat([ROWS] * 4).assign(n=range(2400)), {}, r"C\(n\) has more than 2,000"),
    "a constant to scale": ("clicked ~ scale(one)", ROWS.assign(one=2.5), {}, "divides by 0, for one is constant"),
    "a missing number": ("clicked ~ I(age > 30)", ROWS.assign(age=ROWS.age.where(ROWS.index != 7)), {}, "nan in row 7"),
    "missing text": ("clicked ~ region", ROWS.assign(region=ROWS.region.where(ROWS.index != 7)), {}, "nan in row 7"),
    "few degrees": ("clicked ~ bs(age, df=1)", ROWS, {}, r"`bs\(age, df=1\)`.*Invalid value for `df`"),
    "an argument unknown": ("clicked ~ bs(age, degrees=3)", ROWS, {}, "degrees"),
    "an argument that is a column": ("clicked ~ bs(age, df=price)", ROWS, {}, "df=price must be a number"),
    "a base that is no level": ("clicked ~ C(device, Treatment('fax'))", ROWS, {}, "'fax'"),
    "a level not listed": ("clicked ~ C(device, levels=['phone'])", ROWS, {}, "has the level 'desktop'"),
    "bounds that rows exceed": (
        "clicked ~ bs(age, df=4, upper_bound=50)",
        ROWS,
        {},
        r"beyond the bounds of bs\(age, df=4, upper_bound=50\).*fit with .*, extrapolation='extend'\)",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_does_not_fit_the_data_is_told_with_the_term(kind):
    formula, data, options, message = WRONG[kind]
    with pytest.raises(DataError, match=message):
        full(data, formula, **options)


def test_what_does_not_go_with_a_formula_is_refused():
    core = bc.all_rows(ROWS[["age", "price"]], ROWS.clicked, progressbar=False)
    with pytest.raises(DataError, match="formula is given, but data is a coreset"):
        bc.build_coreset(core, formula="age", progressbar=False)
    with pytest.raises(DataError, match="rows of data come once"):
        bc.build_coreset(blocks_of(50)(), formula="age", progressbar=False)
    with pytest.raises(ValueError, match="has its own intercept"):
        full(ROWS, intercept=True)
    with pytest.raises(ValueError, match="is given beside design, which brings its columns"):
        full(ROWS, design=core.design)


def test_a_design_from_a_file_evaluates_nothing_else(tmp_path):
    fields = full(ROWS, "clicked ~ log(price)").design.to_dict()
    fields["formula"] = f"clicked ~ I(open({str(tmp_path / 'x')!r}, 'w'))"
    with pytest.raises(DataError, match="the call 'open'"):
        read_design(fields).transform(np.ones((3, 1)))
    assert not (tmp_path / "x").exists()


def test_columns_of_text_without_a_formula_are_coded_against_their_first_level():
    with pytest.warns(UserWarning, match=r"coded as factors.*: 'device' \(3 levels\), 'region' \(2 levels\)") as caught:
        found = bc.all_rows(ROWS, label="clicked", intercept=True, progressbar=False)
    assert len(caught) == 1
    expected = formulaic.model_matrix("age + price + device + region + visits", ROWS)
    assert found.feature_names == ("Intercept", *(name.replace("[T.", "[") for name in expected.columns[1:]))
    # formulaic sorts terms by degree, which leaves these in their order
    np.testing.assert_array_equal(found.X, expected.to_numpy(dtype=float))
    assert "formula" not in repr(found)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = bc.all_rows(ROWS[:5], label="clicked", design=found.design, progressbar=False)
    np.testing.assert_array_equal(again.X, found.X[:5])


@pytest.mark.filterwarnings("ignore:columns of text are coded")
def test_missing_text_without_a_formula_is_told_with_its_row():
    missing = ROWS.assign(region=ROWS.region.where(ROWS.index != 7))
    with pytest.raises(DataError, match=r"column 'region\[south\]' is nan in row 7"):
        bc.all_rows(missing, label="clicked", progressbar=False)


def test_identifiers_are_no_factors():
    rows = ROWS.assign(user=[f"u{i % 201}" for i in range(len(ROWS))])
    with pytest.raises(
        DataError, match=r"column 'user' has more than 200 levels.*give groups='user'.*name it in a formula"
    ):
        bc.all_rows(rows, label="clicked", progressbar=False)
    assert full(rows, "clicked ~ user").n_features == 201
    with pytest.raises(DataError, match=r"not numeric: 'day' \(timestamp"):
        bc.all_rows(ROWS.assign(day=pd.Timestamp("2020-01-01")), label="clicked", progressbar=False)


@pytest.mark.parametrize(("name", "term"), [("user", "user"), ("my user", "`my user`")])
@pytest.mark.parametrize("kind", ["text", "C(numbers)"])
def test_thousands_of_levels_are_refused_with_a_term_that_works(name, term, kind, tmp_path):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(size=4200), "y": rng.integers(0, 2, 4200), name: np.arange(4200) % 2100})
    factor = f"C({term})"
    if kind == "text":
        rows[name], factor = [f"u{code}" for code in rows[name]], term
    rows.to_parquet(tmp_path / "rows.parquet", row_group_size=300)
    for data in (rows, tmp_path / "rows.parquet"):
        with pytest.raises(DataError, match=r"more than 2,000 levels, too many .*many-levels\.md") as error:
            bc.all_rows(data, formula=f"y ~ x + {factor}", progressbar=False)
        text = str(error.value)
        assert text.startswith(f"column {name!r}" if kind == "text" else "C(")
        remedy = text.split("write ")[1].split(" in place")[0]
        assert remedy == f"(1 | {term})"
        assert len(bc.all_rows(data, formula=f"y ~ x + {remedy}", progressbar=False).groups[0]) == 2100


# --- rows of a design by hand ---------------------------------------------------------------------------------

KINDS = {"pandas": pd.DataFrame, "polars": pl.from_pandas, "arrow": pa.Table.from_pandas}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"standardize": True}, {"formula": None, "label": "clicked"}])
@pytest.mark.filterwarnings("ignore:columns of text are coded")
def test_a_design_transforms_tables_by_their_names(kind, options):
    found = full(ROWS, **options)
    turned = KINDS[kind](ROWS.iloc[:, ::-1])
    np.testing.assert_array_equal(found.design.transform(turned), found.X)
    assert found.design.transform(KINDS[kind](ROWS.iloc[:0])).shape == (0, found.n_features)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"standardize": True, "intercept": True}])
def test_a_design_of_numbers_transforms_tables_by_their_names(kind, options):
    numbers = ROWS[["age", "price", "clicked"]]
    found = bc.all_rows(numbers, label="clicked", **options, progressbar=False)
    turned = KINDS[kind](numbers.iloc[:, ::-1])
    np.testing.assert_array_equal(found.design.transform(turned), found.X)
    np.testing.assert_array_equal(found.design.transform(numbers[["age", "price"]].to_numpy()), found.X)
    with pytest.raises(ValueError, match="X lacks the column 'price'; it has clicked, age"):
        found.design.transform(KINDS[kind](numbers[["clicked", "age"]]))


@pytest.mark.parametrize("kind", KINDS)
def test_entries_that_are_no_numbers_are_refused_by_a_design_of_numbers(kind):
    design = bc.all_rows(ROWS[["age", "price", "clicked"]], label="clicked", progressbar=False).design
    day, own = pd.Timestamp("2020-01-01"), ROWS[["age", "price"]].head(3)
    for column, message in (
        (["3", "4", "5"], r"columns are not numeric: 'age' \(.*string"),
        ([day, day, day], r"columns are not numeric: 'age' \(timestamp"),
        ([1.0, np.nan, 2.0], "column 'age' is nan in row 1"),
        ([1.0, np.inf, 2.0], "column 'age' is inf in row 1"),
    ):
        with pytest.raises(ValueError, match=message):
            design.transform(KINDS[kind](own.assign(age=column)))


def test_rows_that_a_design_cannot_transform_are_refused_by_name():
    design = full(ROWS, "clicked ~ age * device").design
    for raw, message in (
        (RAW.drop(columns="age"), "X lacks the column 'age'"),
        (RAW.assign(device="fax"), "column 'device' has the level 'fax' in row 0"),
        (RAW.assign(age=np.nan), "column 'age' is nan in row 0"),
        (RAW.assign(device=None), "column 'device' is nan in row 0"),
        (RAW[["age", "device"]].to_numpy(), "'device' holds text; give a data frame with names"),
    ):
        with pytest.raises(DataError, match=message):
            design.transform(raw)
