"""Comparisons against the reference of the formula; outputs of the command line; levels of a CSV file."""

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.cli import main, parse_priors
from bayescore.validation import DataError

RNG = np.random.default_rng(2)
N = 1500
ROWS = pd.DataFrame({"arm": RNG.choice(["a", "b", "None"], N), "size": RNG.choice(["1", "2", "XL"], N)})
ROWS["x"] = RNG.normal(size=N)
ROWS["y"] = (ROWS.x + 0.5 * (ROWS.arm == "b") + RNG.logistic(size=N) > 0).astype(int)


@pytest.mark.parametrize(
    ("term", "reference"),
    [
        ("arm", "None"),
        ("C(arm)", "None"),
        ("C(arm, Treatment('b'))", "b"),
        ("C(arm, Treatment(reference='b'))", "b"),
        ("C(arm, contr.treatment('a'))", "a"),
        ("C(arm, levels=['b', 'None', 'a'])", "b"),
        ("C(arm, contr.treatment('a'), levels=['b', 'None', 'a'])", "a"),
        ("C(arm, Sum)", "None"),
    ],
)
def test_comparisons_are_against_the_reference_of_the_formula(term, reference):
    fit = bc.fit(f"y ~ x + {term}", ROWS, random_state=1, progressbar=False)
    known = bc.fit("y ~ x + arm", ROWS, random_state=1, progressbar=False).average_predictions(variables="arm")
    mean = known.set_index("arm")["mean"]
    table = fit.comparisons("arm")
    others = [level for level in sorted(ROWS.arm.unique()) if level != reference]
    assert table["contrast"].tolist() == [f"{level} - {reference}" for level in others]
    assert np.allclose(table["mean"], [mean[level] - mean[reference] for level in others], atol=0.01)


def run(*words):
    return main([*map(str, words), "--quiet"])


def test_predict_reads_a_csv_file_as_fit_does(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ROWS.to_csv("rows.csv", index=False)
    ROWS[ROWS["size"] != "XL"].to_csv("small.csv", index=False)  # whose sizes are numbers
    ROWS[ROWS["arm"] == "None"].to_csv("none.csv", index=False)  # which pandas takes for missing
    assert run("fit", "rows.csv", "y ~ x + arm + size", "-o", "m", "--seed", "1") == 0
    every = pd.DataFrame(bc.read_fit("m").predict(ROWS))["mean"].to_numpy()
    for name, which in (("small", ROWS["size"] != "XL"), ("none", ROWS["arm"] == "None")):
        assert run("predict", "m", f"{name}.csv", "-o", "p.parquet") == 0
        assert np.allclose(pd.read_parquet("p.parquet")["mean"], every[which])
    capsys.readouterr()
    assert run("update", "m", "small.csv", "-o", "m2") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "wrote m2"
    assert run("update", "m", "small.csv", "--data", "none.csv", "-o", "m3") == 2
    assert "total weight" in capsys.readouterr().err
    assert not (tmp_path / "m3").exists()


def test_an_update_with_other_rows_for_all_is_an_error():
    fit = bc.fit("y ~ x", ROWS, random_state=1, progressbar=False)
    with pytest.raises(DataError, match="total weight 1,500, the coreset stands for 1,600"):
        fit.update(ROWS.head(100), data=ROWS)


def test_two_outputs_and_two_priors_of_one_name_are_refused(tmp_path, capsys):
    words = [tmp_path / name for name in ("post.nc", "core.parquet", "rows.parquet")]
    assert run("certify", *words, "--corrected", tmp_path / "both", "-o", tmp_path / "both") == 2
    assert "name two" in capsys.readouterr().err
    with pytest.raises(ValueError, match="--prior has two priors of 'x'"):
        parse_priors("x=normal(0,1); x=normal(5,0.01)")
