"""`bayescore fit` and `bayescore predict`."""

import shlex

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore import cli
from bayescore.cli import parser
from bayescore.report import pages


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.normal(45, 12, 2000), "g": rng.choice(list("abcde"), 2000)})
    rows["y"] = np.where(0.05 * (rows["age"] - 45) + rng.logistic(size=2000) > 0, "yes", "no")
    rows.to_parquet("rows.parquet")
    rows.head(20).assign(g="new").to_csv("new.csv", index=False)
    return tmp_path


def run(*words, capsys):
    status = cli.main([*words, "--quiet"])
    told = capsys.readouterr()
    return status, told.out, told.err


def test_a_file_becomes_a_fit_and_predictions(folder, capsys):
    fitted = ["fit", "rows.parquet", "y ~ age + (1 | g)", "--seed", "1", "--prior", "age=normal(0,1)"]
    fitted += ["--group-prior", "half_normal(0.5)", "-o", "model"]
    status, out, err = run(*fitted, capsys=capsys)
    assert (status, err) == (0, "")
    fit = bc.read_fit("model")
    assert out.splitlines()[0].endswith(fit.certificate.headline)
    assert fit.prior == {"age": bc.priors.Normal(0.0, 1.0)}
    assert fit.group_prior == bc.priors.HalfNormal(0.5)
    for name in ("p.parquet", "p.csv"):
        status, out, err = run("predict", "model", "new.csv", "-o", name, capsys=capsys)
        assert (status, err) == (0, "")
        assert out.startswith(f"20 predictions by draws that are {fit.level}\n")
        table = pd.read_csv(name) if name.endswith("csv") else pd.read_parquet(name)
        new = pd.read_csv("new.csv")
        assert np.allclose(table["mean"], fit.predict(new)["mean"])
        assert list(table.columns) == [*new.columns, "mean", "sd", "2.5%", "97.5%"]
        assert table[list(new.columns)].equals(new)
    new.rename(columns={"y": "sd"}).to_csv("both.csv", index=False)
    named = new.set_index(pd.Index(range(100, 120), name="id"))
    named.to_parquet("named.parquet")
    assert run("predict", "model", "named.parquet", "-o", "named.csv", capsys=capsys)[0] == 0
    assert pd.read_csv("named.csv")["id"].tolist() == list(range(100, 120))
    status, _, err = run("predict", "model", "both.csv", "-o", "both.parquet", capsys=capsys)
    assert (status, (folder / "both.parquet").exists()) == (2, False)
    assert "both.csv has a column 'sd', as the predictions do; rename it" in err


def test_a_saved_fit_has_a_summary_and_a_page(folder, capsys):
    assert run("fit", "rows.parquet", "y ~ age + (1 | g)", "--seed", "1", "-o", "model", capsys=capsys)[0] == 0
    fit = bc.read_fit("model", folder / "rows.parquet")
    status, out, err = run("summary", "model", capsys=capsys)
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == repr(fit).splitlines()[0]
    assert out.split("\n\n", 1)[1].strip() == repr(fit.summary()).strip()
    _, out, _ = run("summary", "model", "--scale", "odds", "--prob", "0.9", capsys=capsys)
    assert out.split("\n\n", 1)[1].strip() == repr(fit.summary(scale="odds", prob=0.9)).strip()
    status, _, err = run("summary", "model", "--scale", "response", capsys=capsys)
    assert (status, len(err.splitlines())) == (2, 1)
    assert "does not have all its rows" in err
    asked = ["summary", "model", "--scale", "response", "--data", "rows.parquet"]
    _, out, _ = run(*asked, capsys=capsys)
    assert out.split("\n\n", 1)[1].strip() == repr(fit.summary(scale="response")).strip()
    for words in ([], ["--data", "rows.parquet"]):
        status, out, err = run("report", "model", *words, "-o", "page.html", capsys=capsys)
        assert (status, out, err) == (0, "wrote page.html\n", "")
        assert (pages._NO_ROWS in (folder / "page.html").read_text("utf-8")) != bool(words)
    for words, message in (
        (["summary", "gone"], "holds no fit"),
        (["summary", "model", "--prob", "2"], "--prob 2 must"),
        (["report", "gone", "-o", "page.html"], "holds no fit"),
        (["report", "model", "-o", "nowhere/page.html"], "nowhere"),
        (["report", "model", "--data", "rows.parquet", "-o", "rows.parquet"], "is also an input"),
    ):
        status, _, err = run(*words, capsys=capsys)
        assert (status, len(err.splitlines())) == (2, 1)
        assert message in err


def test_help_of_every_command_has_an_example_that_parses(capsys):
    for name, example in cli.EXAMPLES.items():
        with pytest.raises(SystemExit):
            cli.main([name, "--help"])
        assert f"example: bayescore {name} " in " ".join(capsys.readouterr().out.split())
        parser().parse_args([name, *shlex.split(example)])
    assert set(cli.EXAMPLES) == set(cli.COMMANDS)


def test_counts_are_predicted_at_their_exposures(folder, capsys):
    rng = np.random.default_rng(2)
    rows = pd.DataFrame({"x": rng.normal(size=1000), "days": rng.uniform(1, 3, 1000)})
    rows.assign(n=rng.poisson(rows["days"] * np.exp(0.3 * rows["x"]))).to_parquet("counts.parquet")
    asked = ["fit", "counts.parquet", "n ~ x", "--family", "poisson", "--exposure", "days", "-o", "model"]
    assert run(*asked, capsys=capsys)[0] == 0
    for name, words in (("rate", []), ("count", ["--exposure", "days"])):
        assert run("predict", "model", "counts.parquet", *words, "-o", f"{name}.parquet", capsys=capsys)[0] == 0
    rate, count = (pd.read_parquet(f"{name}.parquet") for name in ("rate", "count"))
    assert np.allclose(count["97.5%"], rate["97.5%"] * rows["days"])
    status, _, err = run("predict", "model", "counts.parquet", "--exposure", "nights", "-o", "p.csv", capsys=capsys)
    assert status == 2
    assert "--exposure 'nights' is no column of the rows" in err


def test_random_state_is_another_name_of_the_seed():
    words = ["build", "rows.parquet", "-o", "core.parquet"]
    assert parser().parse_args([*words, "--random-state", "7"]).seed == 7
    assert parser().parse_args([*words, "--seed", "7"]).seed == 7
    assert parser().parse_args(words).seed == 0


def test_clusters_and_strata_are_columns(folder, capsys):
    rows = pd.read_parquet("rows.parquet").assign(school=np.arange(2000) % 80, region=np.arange(2000) % 2)
    rows.to_parquet("survey.parquet")
    asked = ["fit", "survey.parquet", "y ~ age", "--cluster", "school", "--strata", "region", "-o", "model"]
    status, out, err = run(*asked, capsys=capsys)
    assert (status, err) == (0, "")
    assert "Spread: cluster-robust by 80 clusters of 'school' in 2 strata of 'region'" in " ".join(out.split())
    assert bc.read_fit("model").spread.endswith("strata of 'region'")
    _, out, _ = run("predict", "model", "new.csv", "-o", "p.csv", capsys=capsys)
    assert out.startswith("20 predictions by draws that are certified, cluster-robust by 80 clusters\n")
    status, _, err = run("update", "model", "survey.parquet", capsys=capsys)
    assert status == 2
    assert "on the command line fit again without --cluster" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fit", "rows.parquet", "y ~ height", "-o", "model"), "height"),
        (("fit", "rows.parquet", "-o", "model"), "the formula is missing: give label and terms"),
        (("fit", "rows.parquet", "y ~ age", "--seed", "-3", "-o", "model"), "--seed -3 must be between"),
        (("fit", "rows.parquet", "y ~ age", "--max-seconds", "-2.5", "-o", "model"), "--max-seconds -2.5 must be"),
        (
            ("fit", "rows.parquet", "y ~ age", "--cluster", "absent", "-o", "model"),
            "--cluster 'absent' is not a column",
        ),
        (("fit", "rows.parquet", "y ~ age", "--prior", "flat", "-o", "model"), "flat"),
        (
            ("fit", "rows.parquet", "y ~ age", "--group-prior", "half_normal", "-o", "model"),
            "--group-prior 'half_normal'",
        ),
        (("fit", "rows.parquet", "y ~ age", "--group-prior", "half_normal(1)", "-o", "m"), "the model has none"),
        (("fit", "absent.parquet", "y ~ age", "-o", "model"), "absent.parquet"),
        (("fit", "rows.parquet", "y ~ age", "--max-seconds", "0", "-o", "model"), "--max-seconds"),
        (("fit", "rows.parquet", "y ~ age", "-o", "rows.parquet"), "rows.parquet"),
        (("predict", "rows.parquet", "new.csv", "-o", "p.csv"), "holds no fit"),
        (("predict", "model", "new.csv", "-o", "new.csv"), "also an input"),
        (("predict", "model", "new.csv", "-o", "p.xlsx"), "end it in .csv or .parquet"),
    ],
)
def test_bad_input_is_one_line_and_status_2(folder, capsys, words, message):
    status, out, err = run(*words, capsys=capsys)
    assert (status, out) == (2, "")
    assert err.startswith("bayescore: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert "numpy Generator" not in err
    assert not (folder / "model").exists()
