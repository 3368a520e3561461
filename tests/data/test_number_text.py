"""A column of text whose levels are numbers is no factor unless the user calls it one, from every source."""

import warnings

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bayescore as bc
from bayescore.data.factors import number_text
from bayescore.limits import MIN_NUMBER_LEVELS, MIN_NUMBER_SHARE
from bayescore.validation import DataError

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, used by Dask

N = 600
RNG = np.random.default_rng(11)
AGE = RNG.integers(18, 58, N)
Y = RNG.integers(0, 2, N)
NUMBERS = pd.DataFrame({"y": Y, "x": RNG.normal(size=N), "age": AGE.astype(str)})
TYPO = NUMBERS.assign(age=NUMBERS["age"].where(np.arange(N) != 500, "forty"))
QUIET = {"progressbar": False}
REFUSED = r"column 'age' is text, but 40 of its 41 levels are numbers, and the first other is 'forty'.*C\(age\)"


def sources(frame, folder):
    frame.to_parquet(folder / "rows.parquet", index=False)
    frame.to_csv(folder / "rows.csv", index=False)
    return {
        "pandas": frame,
        "arrow": pa.Table.from_pandas(frame, preserve_index=False),
        "views": pl.from_pandas(frame),
        "lazy": pl.from_pandas(frame).lazy(),
        "parquet": folder / "rows.parquet",
        "csv": folder / "rows.csv",
        "dask": dd.from_pandas(frame, npartitions=3),
        "dask of files": dd.read_parquet(folder / "rows.parquet"),
        "callable": lambda: iter([(part[["x", "age"]], part["y"]) for part in (frame[:250], frame[250:])]),
    }


def built(data, formula="y ~ x + age"):
    return bc.all_rows(data, formula=formula, **QUIET)


def test_one_typo_is_named_from_every_source(tmp_path):
    for kind, data in sources(TYPO, tmp_path).items():
        with pytest.raises(DataError, match=REFUSED) as error:
            built(data)
        assert ("(row 500)" in str(error.value)) == (kind in ("pandas", "arrow", "views")), kind


def test_without_a_formula_and_in_streams_a_typo_is_refused():
    with pytest.raises(DataError, match=REFUSED):
        bc.all_rows(TYPO[["x", "age"]], TYPO["y"], **QUIET)
    with pytest.raises(DataError, match="block 0: " + REFUSED):
        bc.stream(size=50, formula="y ~ x + age", random_state=1).partial_fit(TYPO)


def test_what_the_user_calls_a_factor_is_one(tmp_path):
    coded = TYPO.assign(age=TYPO["age"].astype("category"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for kind, data in sources(TYPO, tmp_path).items():
            assert len(built(data, "y ~ x + C(age)").feature_names) == 42, kind
            assert built(data, "y ~ x + (1 | age)").groups[0].name == "age", kind
        for kind, data in sources(coded, tmp_path).items():
            if kind != "csv":  # which has no types
                assert len(built(data).feature_names) == 42, kind


@pytest.mark.parametrize("name", ["age", "own age"])
def test_the_error_names_a_term_that_works(name):
    frame = TYPO.rename(columns={"age": name})
    spelled = name if name == "age" else f"`{name}`"
    with pytest.raises(DataError) as error:
        built(frame, f"y ~ x + {spelled}")
    term = str(error.value).split("write ")[1].split(" in a formula")[0]
    assert len(built(frame, f"y ~ x + {term}").feature_names) == 42


def test_text_of_numbers_alone_is_warned_of_and_coded():
    for frame, reader in ((NUMBERS, "to_numeric"), (NUMBERS.assign(age=NUMBERS["age"] + ",5"), "decimal=','")):
        with pytest.warns(UserWarning, match=f"'age' is text, and all its 40 levels are numbers.*{reader}") as caught:
            assert len(built(frame).feature_names) == 41
        assert len(caught) == 1


def test_codes_with_leading_zeros_and_words_are_factors():
    for levels in (NUMBERS["age"].str.zfill(5), "q" + NUMBERS["age"]):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            assert len(built(NUMBERS.assign(age=levels)).feature_names) == 41


def test_too_many_levels_of_numbers_are_named_so():
    values = [f"{x:.12f}" for x in np.random.default_rng(3).normal(size=2500)]
    frame = pd.DataFrame({"y": np.arange(2500) % 2, "x": values})
    with pytest.raises(DataError, match="'x' has more than 2,000 levels, and all are numbers: turn it into numbers"):
        built(frame, "y ~ x")
    frame.loc[7, "x"] = "forty"
    with pytest.raises(
        DataError, match="2,499 of its 2,500 levels are numbers, and the first other is 'forty'"
    ) as error:
        built(frame, "y ~ x")
    assert "C(x)" not in str(error.value)  # which is refused, too
    with pytest.raises(DataError, match=r"more than 2,000 levels, .* for effects from one prior write \(1 \| x\)"):
        built(frame, "y ~ C(x)")


def test_levels_are_numbers_in_one_notation():
    numbers = [str(i) for i in range(20, 40)]
    assert number_text(numbers) == (20, (), False, False)
    assert number_text(numbers[: MIN_NUMBER_LEVELS - 1]) is None
    assert number_text(["1.5", "-2e3", " .5 ", "+7", *numbers, "3,5"]) == (25, ("3,5",), False, False)
    assert number_text([*(f"{i},5" for i in numbers), "3.5"]) == (21, ("3.5",), True, False)
    for other in ("nan", "inf", "1_000", "", "0x1f", "١٢", "1.2.3"):
        assert number_text([*numbers, other]) == (21, (other,), False, False)
    n_others = round(len(numbers) * (1.0 - MIN_NUMBER_SHARE) / MIN_NUMBER_SHARE)  # 2 of 22
    assert number_text([*numbers, *"ab"[:n_others]]) is not None
    assert number_text([*numbers, *"abc"[: n_others + 1]]) is None
