"""What group terms ask of the rows: words where only priors tell sds; each with a data set that gives none."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.validation import DataError

ONE_LABEL = r"every one of the 20 levels of 'g' has rows of one label only.*its prior alone.*HalfNormal.*\(1 \| g\) out"
ALIAS = r"'g' and 'h' are one factor under two names.*leave \(1 \| g\) or \(1( \+ x)? \| h\) out"


def frame(one_label: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(size=400), "g": np.repeat(np.arange(20), 20)})
    rows["y"] = rows.g % 2 if one_label else (rng.random(400) < 0.5).astype(int)
    return rows


def words(rows, formula, verb=bc.all_rows, **told):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        verb(rows, formula=formula, progressbar=False, **told)
    return [str(own.message) for own in caught]


def has(found, pattern):
    return any(re.search(pattern, text) for text in found)


@pytest.mark.parametrize("verb", [bc.all_rows, bc.build_coreset])
def test_groups_of_one_label_each_are_warned_of_and_one_of_two_labels_is_enough_for_none(tmp_path, verb):
    rows = frame(one_label=True)
    rows.to_parquet(tmp_path / "rows.parquet")
    for data in (rows, tmp_path / "rows.parquet"):
        assert has(words(data, "y ~ x + (1 | g)", verb), ONE_LABEL)
    rows.loc[0, "y"] = 1 - rows.loc[0, "y"]
    assert not has(words(rows, "y ~ x + (1 | g)", verb), "one label only")
    rows = frame(one_label=True)
    assert not has(words(rows, "y ~ x + (0 + x | g)"), "one label only")  # slopes of x are limited


def test_trials_of_which_each_group_has_both_outcomes_give_no_word():
    rows = frame(one_label=True).assign(n=5)
    rows["k"] = 5 * rows.y
    told = "k | trials(n) ~ x + (1 | g)"
    assert has(words(rows, told), ONE_LABEL)
    rows["k"] = 2
    assert not has(words(rows, told), "one label only")


@pytest.mark.parametrize("varies", ["1", "1 + x"])
def test_a_factor_under_two_names_is_warned_of(varies):
    rows = frame()
    rows["h"] = (7 * rows.g + 3) % 20
    formula = f"y ~ x + (1 | g) + ({varies} | h)"
    assert has(words(rows, formula), ALIAS)
    assert has(words(rows.sample(frac=1.0, random_state=1), formula), ALIAS)
    other = rows.copy()
    other.loc[0, "h"] = (other.loc[0, "h"] + 1) % 20  # one row of another level
    assert not has(words(other, formula), "two names")


def test_factors_that_are_nested_or_have_other_effects_are_no_aliases():
    rows = frame().assign(h=lambda own: own.g // 2, k=lambda own: own.g)
    assert not has(words(rows, "y ~ x + (1 | g) + (1 | h)"), "two names")
    assert not has(words(rows, "y ~ x + (1 | g) + (0 + x | k)"), "two names")  # effects without correlation
    assert has(words(rows, "y ~ x + (1 | g) + (1 | k)"), "'g' and 'k' are one factor")


def test_more_effects_than_rows_are_warned_of():
    rows = frame()[::10].assign(h=lambda own: np.arange(len(own)) // 1.5 // 1)
    n = rows.h.nunique()
    assert len(rows) / 2 < n < len(rows)
    found = words(rows, "y ~ x + (1 + x | h)")
    assert has(found, rf"\(1 \+ x \| h\) has {2 * n} effects, 2 for each of {n} levels.*have 40 rows")
    assert not has(words(rows, "y ~ x + (1 | h)"), "effects, ")
    with pytest.raises(DataError, match="one for each row"):
        bc.all_rows(rows.assign(h=np.arange(40)), formula="y ~ x + (1 | h)", progressbar=False)


def test_fit_warns_of_aliases_and_keeps_the_word_in_its_story():
    rows = frame().assign(h=lambda own: 19 - own.g)
    with pytest.warns(UserWarning, match=ALIAS):
        fitted = bc.fit("y ~ x + (1 | g) + (1 | h)", rows, random_state=0, progressbar=False)
    assert "warning: 'g' and 'h' are one factor" in str(fitted.story[0])


def test_rows_for_the_design_of_others_are_not_looked_at():
    rows = frame()
    core = bc.all_rows(rows, formula="y ~ x + (1 | g)", progressbar=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bc.all_rows(rows.drop_duplicates("g"), design=core.design, progressbar=False)


def test_more_effects_than_counts_are_warned_of_though_a_count_is_two_rows():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(size=60), "g": np.arange(60) % 50, "y": 1 + rng.poisson(1.0, 60)})
    found = words(rows, "y ~ x + (1 + x | g)", family="poisson")
    assert has(found, r"has 100 effects, 2 for each of 50 levels.*have 60 rows")
    assert not has(words(rows, "y ~ x + (1 | g)", family="poisson"), "effects, ")
