"""Columns named at the build need not be named again, and formulas name successes and trials."""

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.validation import DataError

rng = np.random.default_rng(0)
ROWS = pd.DataFrame({"x": rng.normal(size=800), "n": rng.integers(1, 6, 800), "w": rng.integers(1, 3, 800) + 0.5})
ROWS["k"] = rng.binomial(ROWS["n"], 1.0 / (1.0 + np.exp(-ROWS["x"])))
NAMED = {"label": "k", "weights": "w", "trials": "n"}


@pytest.mark.parametrize("formula", ["k | trials(n) ~ x", "p(k, n) ~ x", "`k`|trials( n )~x"])
def test_a_formula_names_successes_and_trials(formula):
    core = bc.all_rows(ROWS, formula=formula, weights="w", progressbar=False)
    named = bc.all_rows(ROWS, **NAMED, intercept=True, progressbar=False)
    assert core.rows_digest == named.rows_digest
    assert dict(core.design.roles) == NAMED


@pytest.mark.parametrize(
    ("formula", "options", "message"),
    [
        ("k | trials(n) ~ n", {}, "'n' stands on both sides; trials are no feature"),
        ("k | n ~ x", {}, r"its left side .* 'k \| trials\(n\)'"),
        ("p(k) ~ x", {}, r"its left side .* 'k \| trials\(n\)' or .* of counts.*; it is 'p\(k\)'"),
        ("k | trials(m) ~ x", {}, "trials='m' is not a column of the data"),
        ("k | trials(n) ~ x", {"trials": "n"}, "trials is given beside formula"),
    ],
)
def test_left_sides_that_are_refused(formula, options, message):
    with pytest.raises(DataError, match=message):
        bc.all_rows(ROWS, formula=formula, **options, progressbar=False)


def test_certify_knows_the_columns_of_the_build(tmp_path):
    core = bc.build_coreset(ROWS, **NAMED, intercept=True, random_state=1, progressbar=False)
    idata = bc.sample(core, random_seed=2, progressbar=False)
    core.save(tmp_path / "core.parquet")
    read = bc.read_coreset(tmp_path / "core.parquet")
    assert dict(read.design.roles) == NAMED
    again = bc.certify(idata, read, ROWS, progressbar=False)
    assert again.text == bc.certify(idata, core, ROWS, **NAMED, progressbar=False).text
    with pytest.raises(DataError, match="weights='w' is not a column of the data"):
        bc.certify(idata, core, ROWS.drop(columns="w"), progressbar=False)
    with pytest.raises(DataError, match="total weight"):  # another column, named, wins
        bc.certify(idata, core, ROWS.assign(v=ROWS["w"] + 1.0).drop(columns="w"), weights="v", progressbar=False)


def test_files_of_coresets_without_roles_are_as_they_were():
    core = bc.all_rows(ROWS[["x"]].to_numpy(), ROWS["k"] > 0, progressbar=False)
    assert core.design.roles == ()
    assert "roles" not in core.summary()


def test_a_formula_may_name_columns_that_have_a_role(tmp_path):
    """Features, weights, exposures and offsets are those of copies of the columns under other names."""
    rows = ROWS.assign(w2=ROWS["w"], n2=ROWS["n"])
    path = tmp_path / "rows.parquet"
    rows.to_parquet(path)
    cases = [
        ("k ~ x + log({})", "n", {"exposure": "n", "family": "poisson"}),
        ("k ~ x + {}", "w", {"weights": "w", "exposure": "n", "family": "poisson"}),
        ("k ~ x + {}", "w", {"offset": "w", "family": "poisson"}),
    ]
    for formula, name, roles in cases:
        apart = bc.all_rows(rows, formula=formula.format(name + "2"), **roles, progressbar=False)
        for data in (rows, path):
            both = bc.all_rows(data, formula=formula.format(name), **roles, progressbar=False)
            assert both.rows_digest == apart.rows_digest


def test_an_array_beside_the_data_is_no_column_of_a_formula():
    with pytest.raises(DataError, match="the data have no feature 'weight'"):
        bc.all_rows(ROWS, formula="k | trials(n) ~ x + weight", weights=ROWS["w"].to_numpy(), progressbar=False)


@pytest.mark.parametrize(("roles", "what"), [({"label": "w"}, "the label"), ({"label": "k", "trials": "w"}, "trials")])
def test_labels_and_trials_are_no_features(roles, what):
    with pytest.raises(DataError, match=f"column 'w' is {what}, which (is|are) no feature"):
        bc.all_rows(ROWS, formula="~ x + w", **roles, progressbar=False)
