import argparse
import html
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore import cli, compat
from bayescore.coresets.build import build_coreset
from bayescore.data import coreset as coreset_file
from bayescore.datasets import TRUTH
from bayescore.samplers import sample as sampling
from bayescore.samplers.posterior import write_posterior

README = Path(__file__).resolve().parents[1] / "README.md"
FAST = ("--sampler", "mala", "--draws", "100", "--tune", "100", "--chains", "2", "--quiet")


def frame(columns: str = "abc") -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(600, len(columns))), columns=list(columns))
    rows["y"] = np.where(rows[columns[0]] + rng.logistic(size=600) > 0, "yes", "no")
    return rows


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with good and bad inputs; tests copy it."""
    folder = tmp_path_factory.mktemp("made")
    for name, columns in (("", "abc"), ("other_", "abd")):
        rows = frame(columns)
        rows.to_parquet(folder / f"{name}rows.parquet")
        core = build_coreset(rows, label="y", method="uniform", size=100, random_state=0, progressbar=False)
        core.save(folder / f"{name}core.parquet")
        idata = bc.sample(core, sampler="mala", draws=500, tune=200, chains=2, random_seed=0, progressbar=False)
        write_posterior(idata, folder / f"{name}posterior.nc")
    whole = (folder / "rows.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (folder / "empty.parquet").touch()
    gamma = {"posterior": {"gamma": idata.posterior["beta"].to_numpy()}}
    compat.write_inference_data(compat.inference_data(gamma), str(folder / "no_beta.nc"))
    (folder / "text.nc").write_text("no draws here\n")
    (folder / "folder").mkdir()
    return folder


@pytest.fixture
def inputs(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    shutil.copytree(made, folder)
    monkeypatch.chdir(folder)
    return folder


def files() -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(Path().rglob("*"))}


def status(argv: list[str]) -> int:
    """Return the exit status, also where argparse ends the program itself."""
    try:
        return cli.main(argv)
    except SystemExit as end:
        return int(end.code or 0)


def test_build_sample_compare(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (
        ["build", "rows.parquet", "--label", "y", "--size", "150", "--intercept", "--standardize", "-o", "c.parquet"],
        ["sample", "c.parquet", *FAST, "--prior", "student_t(4, 0, 2.5)", "--seed", "1", "-o", "p.nc"],
        ["sample", "c.parquet", *FAST, "--seed", "2", "-o", "q.nc"],
        ["compare", "p.nc", "--reference", "q.nc", "-o", "report.html"],
    ):
        assert cli.main(argv) == 0
        output = capsys.readouterr()
        assert f"wrote {argv[-1]}" in output.out
        assert output.err == ""
    core = bc.read_coreset("c.parquet")
    assert core.feature_names == ("Intercept", "a", "b", "c")
    assert core.classes == ("no", "yes")
    idata = compat.read_inference_data("p.nc")
    assert idata.posterior.attrs["prior"].startswith("StudentT")
    assert idata.posterior.sizes == {"chain": 2, "draw": 100, "feature": 4}
    report = Path("report.html").read_text(encoding="utf-8")
    assert re.search("<strong>p: (indistinguishable|close|differs|too few draws)</strong>", report)
    assert "bayescore compare p.nc --reference q.nc -o report.html" in report


def test_a_formula_names_the_label_too(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    formula = "y ~ a * side + scale(b)"
    frame().assign(side=np.where(frame().c > 0, "left", "right")).to_parquet("sides.parquet")
    for argv in (
        ["build", "sides.parquet", "--formula", formula, "--size", "150", "-o", "c.parquet"],
        ["sample", "c.parquet", *FAST, "--seed", "1", "-o", "p.nc"],
        ["certify", "p.nc", "c.parquet", "sides.parquet", "--quiet"],
    ):
        assert cli.main(argv) == 0
        output = capsys.readouterr()
        assert (formula in output.out) == (argv[0] == "build")
    assert "side[right]" in output.out


def test_groups_are_columns_of_the_file(inputs: Path) -> None:
    rows = frame().round(0).assign(county=np.arange(600) % 7, age=np.arange(600) % 3)
    rows.to_parquet("grouped.parquet")
    told = "build grouped.parquet --label y --method aggregate --groups county --groups age -o grouped_core.parquet"
    assert status(told.split()) == 0
    core = bc.read_coreset("grouped_core.parquet")
    assert [(grouping.name, len(grouping)) for grouping in core.groups] == [("county", 7), ("age", 3)]
    assert core.feature_names == ("a", "b", "c")


@pytest.mark.slow
def test_draws_with_groups_are_certified_with_a_page(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, county = frame(), np.arange(600) % 12
    y = rows["a"] + 0.3 * (county - 5.5) + np.random.default_rng(1).logistic(size=600) > 0
    rows.assign(county=county, y=y).to_parquet("grouped.parquet")
    for argv in (
        "build grouped.parquet --label y --intercept --groups county --quiet -o c.parquet",
        "sample c.parquet --draws 500 --tune 500 --seed 1 --quiet -o p.nc",
        "certify p.nc c.parquet grouped.parquet --quiet -o c.html",
    ):
        assert cli.main(argv.split()) == 0
    page = Path("c.html").read_text(encoding="utf-8")
    assert '<section id="variance">' in page
    assert "bayescore certify p.nc c.parquet grouped.parquet" in page
    assert "log sigma" in capsys.readouterr().out
    rows.assign(place=county, y=y).to_parquet("renamed.parquet")
    renamed = ["certify", "p.nc", "c.parquet", "renamed.parquet", "--quiet", "-o", "c.html"]
    assert cli.main(renamed) == 2
    assert "--groups 'county' is not a column" in capsys.readouterr().err
    assert cli.main([*renamed, "--groups", "place"]) == 0
    assert "--groups place" in Path("c.html").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore")  # of chains as short as these
def test_draws_with_several_factors_are_certified_with_a_page(inputs: Path) -> None:
    rows = frame().assign(county=np.arange(600) % 7, age=np.arange(600) % 3)
    rows.to_parquet("rows.parquet")
    core = build_coreset(rows, formula="y ~ a + (1 | county) + (1 | age)", method="aggregate", progressbar=False)
    core.save("two.parquet")
    for argv in (
        "sample two.parquet --draws 20 --tune 20 --chains 2 --seed 1 --quiet -o p.nc",
        "certify p.nc two.parquet rows.parquet --quiet -o page.html",
    ):
        assert cli.main(argv.split()) == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Variance between groups of county" in page
    assert "Variance between groups of age" in page


@pytest.mark.slow
def test_samplers_by_data_augmentation(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fast = ["--draws", "100", "--tune", "10", "--chains", "2", "--quiet", "-o", "p.nc"]
    for sampler, family in (("gibbs", "probit"), ("polya_gamma", "logistic")):
        argv = ["sample", "core.parquet", "--sampler", sampler, "--family", family, *fast]
        assert cli.main(argv) == 0
        attrs = compat.read_inference_data("p.nc").posterior.attrs
        assert (attrs["sampler"], attrs["family"]) == (sampler, family)
    capsys.readouterr()
    assert cli.main(["sample", "core.parquet", "--sampler", "gibbs", *fast]) == 2  # a logistic coreset
    assert "use --sampler 'polya_gamma'" in capsys.readouterr().err


def reported(report: str, posterior: str) -> bool:
    """Tell whether the report has the verdict that `compare_posteriors` finds."""
    name = Path(posterior).stem
    verdict = bc.compare_posteriors(
        {name: compat.read_inference_data(posterior)}, compat.read_inference_data("posterior.nc")
    ).verdicts[name]
    text = html.unescape(Path(report).read_text(encoding="utf-8"))
    return verdict.level in text and verdict.text in text


@pytest.mark.slow
def test_the_verdict_is_printed_and_reported(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "posterior.nc", "--reference", "posterior.nc", "-o", "same.html"]) == 0
    assert "indistinguishable" in capsys.readouterr().out
    assert reported("same.html", "posterior.nc")
    # negative control: the posterior of another label
    rows = frame().assign(y=np.where(frame()["b"] > 0, "yes", "no"))
    core = bc.all_rows(rows, label="y", progressbar=False)
    wrong = bc.sample(core, sampler="mala", draws=500, tune=200, chains=2, random_seed=0, progressbar=False)
    write_posterior(wrong, "wrong.nc")
    assert cli.main(["compare", "wrong.nc", "--reference", "posterior.nc", "-o", "wrong.html"]) == 0
    printed = capsys.readouterr().out
    assert "differs" in printed
    assert "indistinguishable" not in printed
    assert reported("wrong.html", "wrong.nc")
    assert not reported("wrong.html", "posterior.nc")


CERTIFY = "certify posterior.nc core.parquet rows.parquet --label y --quiet"


def test_certify_prints_and_reports_the_verdict(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files()
    assert cli.main(CERTIFY.split()) == 0
    printed = capsys.readouterr().out
    core = bc.read_coreset("core.parquet")
    found = bc.certify(compat.read_inference_data("posterior.nc"), core, frame(), label="y", progressbar=False)
    assert found.headline in printed
    assert f"\n  {found.text}\n" in printed
    assert files() == before
    assert cli.main([*CERTIFY.split(), "-o", "c e.html"]) == 0
    assert "wrote c e.html" in capsys.readouterr().out
    text = html.unescape(Path("c e.html").read_text(encoding="utf-8"))
    assert found.text in text
    assert f"<strong>{found.headline}</strong>" in text
    assert "bayescore certify posterior.nc core.parquet rows.parquet --label y -o 'c e.html'" in text
    assert "give test= rows" in text
    frame().iloc[:300].to_parquet("test.parquet")
    assert cli.main([*CERTIFY.split(), "--test", "test.parquet", "-o", "c e.html"]) == 0
    text = html.unescape(Path("c e.html").read_text(encoding="utf-8"))
    assert "Left, test rows in" in text
    assert "--label y --test test.parquet -o 'c e.html'" in text


@pytest.mark.parametrize(("method", "level"), [("calibrated", "certified"), ("uniform", "corrected")])
def test_certify_exits_0_whatever_the_verdict(
    inputs: Path, capsys: pytest.CaptureFixture[str], method: str, level: str
) -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(20_000, 2)), columns=["a", "b"])
    rows["y"] = rows["a"] + rng.logistic(size=20_000) > 0
    rows.to_parquet("many.parquet")
    core = build_coreset(rows, label="y", method=method, size=200, random_state=0, progressbar=False)
    core.save("c.parquet")
    write_posterior(bc.sample(core, sampler="mala", draws=250, random_seed=0, progressbar=False), "p.nc")
    argv = ["certify", "p.nc", "c.parquet", "many.parquet", "--label", "y", "--quiet", "-o", "c.html"]
    assert cli.main(argv) == 0
    headline = {"certified": "CERTIFIED", "corrected": "CERTIFIED AFTER CORRECTION"}.get(level, "NOT CERTIFIED")
    assert headline in capsys.readouterr().out
    assert f"<strong>{headline}" in Path("c.html").read_text(encoding="utf-8")


def test_certify_writes_the_corrected_draws_or_says_why_not(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(5_000, 2)), columns=["a", "b"])
    rows["y"] = rows["a"] + rng.logistic(size=5_000) > 0
    rows.to_parquet("many.parquet")
    core = build_coreset(rows, label="y", method="uniform", size=200, random_state=0, progressbar=False)
    core.save("c.parquet")
    idata = bc.sample(core, sampler="mala", draws=250, random_seed=0, progressbar=False)
    write_posterior(idata, "p.nc")
    write_posterior(idata.sel(draw=slice(0, 9)), "few.nc")
    argv = ["certify", "p.nc", "c.parquet", "many.parquet", "--label", "y", "--quiet", "--corrected", "better.nc"]
    assert cli.main(argv) == 0
    assert "wrote better.nc" in capsys.readouterr().out
    better = compat.read_inference_data("better.nc")
    assert better.posterior["beta"].shape == idata.posterior["beta"].shape
    assert "corrected" in better.posterior.attrs
    assert cli.main(["certify", "few.nc", *argv[2:-1], "none.nc"]) == 2
    assert "--corrected='none.nc' was not written: the certificate is 'not certified'" in capsys.readouterr().err
    assert not Path("none.nc").exists()
    assert cli.main([*argv[:-1], "p.nc"]) == 2
    assert "--corrected='p.nc' is also an input" in capsys.readouterr().err


def test_same_seed_same_files(inputs: Path) -> None:
    for name in ("one", "two"):
        assert cli.main(["build", "rows.parquet", "--label", "y", "--size", "80", "--quiet", "-o", name]) == 0
    pd.testing.assert_frame_equal(pd.read_parquet("one"), pd.read_parquet("two"))


def test_posteriors_of_one_file_name_keep_their_folders(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy("posterior.nc", "folder/posterior.nc")
    argv = ["compare", "posterior.nc", "folder/posterior.nc", "--reference", "posterior.nc", "-o", "report.html"]
    assert cli.main(argv) == 0
    first = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert {"posterior.nc", "folder/posterior.nc"} <= set(first)


BUILD = "build rows.parquet --label y --quiet"
SAMPLE = "sample core.parquet --sampler mala --draws 50 --tune 50 --quiet"
BAD = {
    "data file missing": ("build nothing.parquet --label y -o new", "nothing.parquet"),
    "Parquet cut off": ("build cut.parquet --label y -o new", "cut.parquet"),
    "Parquet empty": ("build empty.parquet --label y -o new", "empty.parquet"),
    "folder without Parquet": ("build folder --label y -o new", "folder"),
    "label is no column": ("build rows.parquet --label z -o new", "'z'"),
    "label left out": ("build rows.parquet -o new", "label is missing"),
    "no formula": ("build rows.parquet --formula y~a+ -o new", "--formula 'y~a+' cannot be read"),
    "weights are no column": (f"{BUILD} --weights w -o new", "'w'"),
    "output is a folder": (f"{BUILD} -o folder", "--output='folder'"),
    "output's folder missing": (f"{BUILD} -o absent/new", "'absent'"),
    "output is the input": (f"{BUILD} -o rows.parquet", "--output='rows.parquet'"),
    "size 0": (f"{BUILD} --size 0 -o new", "--size 0"),
    "size above the rows": (f"{BUILD} --size 601 -o new", "601"),
    "size in words": (f"{BUILD} --size many -o new", "'many'"),
    "method unknown": (f"{BUILD} --method magic -o new", "'magic'"),
    "likelihood unknown": (f"{BUILD} --family cauchit -o new", "'cauchit'"),
    "method against likelihood": (f"{BUILD} --family probit --method sensitivity -o new", "'probit'"),
    "seed negative": (f"{BUILD} --seed -1 -o new", "-1"),
    "option unknown": (f"{BUILD} --fast -o new", "--fast"),
    "coreset missing": ("sample nothing.parquet -o new", "nothing.parquet"),
    "coreset is raw rows": ("sample rows.parquet -o new", "rows.parquet"),
    "coreset is a posterior": ("sample posterior.nc -o new", "posterior.nc"),
    "coreset cut off": ("sample cut.parquet -o new", "cut.parquet"),
    "sampler unknown": ("sample core.parquet --sampler hmc -o new", "'hmc'"),
    "prior not closed": (f"{SAMPLE} --prior normal(0 -o new", "'normal(0'"),
    "prior unknown": (f"{SAMPLE} --prior gauss(0,1) -o new", "'gauss(0,1)'"),
    "prior out of range": (f"{SAMPLE} --prior normal(0,-1) -o new", "-1"),
    "prior not of numbers": (f"{SAMPLE} --prior normal(0,x) -o new", "'x'"),
    "prior of three numbers": (f"{SAMPLE} --prior normal(0,1,2) -o new", "normal(0,1,2)"),
    "prior MALA cannot take": (f"{SAMPLE} --prior horseshoe(1) -o new", "nuts"),
    "no draws": (f"{SAMPLE} --draws 0 -o new", "--draws 0"),
    "no chains": (f"{SAMPLE} --chains 0 -o new", "--chains 0"),
    "output is the coreset": (f"{SAMPLE} -o core.parquet", "--output='core.parquet'"),
    "posterior missing": ("compare nothing.nc --reference posterior.nc -o new", "nothing.nc"),
    "posterior is text": ("compare text.nc --reference posterior.nc -o new", "text.nc"),
    "posterior is a coreset": ("compare core.parquet --reference posterior.nc -o new", "core.parquet"),
    "posterior without beta": ("compare no_beta.nc --reference posterior.nc -o new", "no_beta.nc"),
    "reference missing": ("compare posterior.nc --reference nothing.nc -o new", "nothing.nc"),
    "features differ": ("compare other_posterior.nc --reference posterior.nc -o new", "'d'"),
    "report replaces a posterior": ("compare posterior.nc --reference posterior.nc -o posterior.nc", "posterior.nc"),
    "certified posterior missing": ("certify nothing.nc core.parquet rows.parquet --label y -o new", "nothing.nc"),
    "certified coreset missing": ("certify posterior.nc nothing rows.parquet --label y -o new", "nothing"),
    "certified rows missing": ("certify posterior.nc core.parquet nothing --label y -o new", "nothing"),
    "certified rows differ": (f"{CERTIFY.replace(' rows', ' other_rows')} -o new", "a, b, d"),
    "certified coreset differs": (f"{CERTIFY.replace(' core', ' other_core')} -o new", "a, b, d"),
    # before work: the posterior is missing too
    "certificate is a folder": (
        "certify nothing.nc core.parquet rows.parquet --label y -o folder",
        "--output='folder'",
    ),
    "certificate's folder missing": (
        "certify nothing.nc core.parquet rows.parquet --label y -o absent/new",
        "'absent'",
    ),
    "certificate replaces the rows": (f"{CERTIFY} -o rows.parquet", "--output='rows.parquet'"),
    "certificate replaces the coreset": (f"{CERTIFY} -o core.parquet", "--output='core.parquet'"),
    "certificate replaces the posterior": (f"{CERTIFY} -o posterior.nc", "--output='posterior.nc'"),
    "certificate replaces the test rows": (f"{CERTIFY} --test rows.parquet -o rows.parquet", "--output='rows.parquet'"),
    "test rows without a report": (f"{CERTIFY} --test rows.parquet", "--test='rows.parquet'"),
    "test rows differ": (f"{CERTIFY} --test other_rows.parquet -o new", "a, b, d"),
    "demo of few rows": ("demo --rows 10 -o new", "--rows 10"),
    "demo into a file": ("demo -o rows.parquet", "rows.parquet"),
    "command unknown": ("shrink rows.parquet", "shrink"),
    "command left out": ("", "COMMAND"),
}


@pytest.mark.parametrize(("command", "told"), BAD.values(), ids=BAD.keys())
def test_bad_input(inputs: Path, capsys: pytest.CaptureFixture[str], command: str, told: str) -> None:
    before = files()
    assert status(command.split()) == 2
    output = capsys.readouterr()
    assert output.out == ""
    lines = output.err.splitlines()
    assert len(lines) == 1, output.err
    assert lines[0].startswith("bayescore: error: ")
    assert told in lines[0]
    assert len(lines[0]) > len("bayescore: error: ") + len(told)  # more than the value alone
    assert files() == before


def test_remedies_are_options_of_the_command(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("holes.csv").write_text("a,y\n1.5,1\n,0\n2.5,0\n")
    assert status(["build", "holes.csv", "--label", "y", "-o", "new"]) == 2
    assert "--missing 'drop'" in capsys.readouterr().err


def test_verbose_raises(inputs: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.parquet"):
        cli.main(["build", "nothing.parquet", "--label", "y", "--verbose", "-o", "new"])


def test_a_defect_is_not_passed_off_as_bad_input(inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayescore.coresets.build.build_coreset", lambda *_, **__: {}["defect"])
    with pytest.raises(KeyError, match="defect"):
        cli.main(["build", "rows.parquet", "--label", "y", "-o", "new"])


def half_then_interrupt(path_of: Callable[..., str | Path]) -> Callable[..., None]:
    def write(*args: object, **kwargs: object) -> None:
        with open(path_of(*args), "wb") as file:
            file.write(b"half")
        raise KeyboardInterrupt

    return write


@pytest.mark.parametrize("earlier", [False, True], ids=["no earlier file", "earlier file"])
@pytest.mark.parametrize("command", ["build", "sample", "compare", "certify"])
def test_interrupted_while_writing(
    inputs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str, earlier: bool
) -> None:
    if earlier:
        Path("new").write_text("of yesterday")
    before = files()
    monkeypatch.setattr(coreset_file.pq, "write_table", half_then_interrupt(lambda table, path: path))
    monkeypatch.setattr(Path, "write_bytes", half_then_interrupt(lambda path, data: path))
    monkeypatch.setattr(Path, "write_text", half_then_interrupt(lambda path, text: path))
    argv = {
        "build": ["build", "rows.parquet", "--label", "y", "--size", "50", "--quiet"],
        "sample": ["sample", "core.parquet", *FAST],
        "compare": ["compare", "posterior.nc", "--reference", "posterior.nc"],
        "certify": CERTIFY.split(),
    }[command]
    assert cli.main([*argv, "-o", "new"]) == 130
    assert capsys.readouterr().err == "bayescore: interrupted; unfinished files were removed\n"
    assert files() == before


def test_draws_cut_short_count_as_interrupted(
    inputs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # pm.sample returns the draws it has on Ctrl-C, without an exception
    monkeypatch.setattr(sampling, "sample", lambda *_, **__: compat.read_inference_data("posterior.nc"))
    before = files()
    assert cli.main(["sample", "core.parquet", "--draws", "5000", "--chains", "2", "-o", "new"]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert files() == before
    assert cli.main(["sample", "core.parquet", "--draws", "500", "--chains", "2", "-o", "new"]) == 0


@pytest.mark.essential("the first command of the README")
def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "demo"
    assert cli.main(["demo", "--rows", "20000", "--quiet", "-o", str(folder)]) == 0
    assert {path.name for path in folder.iterdir()} == {"report.html", "coefficients.png", "model"}
    printed = capsys.readouterr().out
    assert "  CERTIFIED\n" in printed
    found = bc.read_fit(folder / "model")
    assert (found.level, found.coreset.n_total) == ("certified", 20_000)
    assert len(found.coreset) < 300
    posterior = found.summary()
    for name, truth in TRUTH.items():
        assert abs(posterior.loc[name, "mean"] - truth) < 4.0 * posterior.loc[name, "sd"]  # a fixed seed
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert "clicked ~ age + log(income) + visits + device + (1 | county)" in report
    assert f"{20_000:,}" in report


def commands() -> dict[str, argparse.ArgumentParser]:
    action = next(a for a in cli.parser()._actions if isinstance(a, argparse._SubParsersAction))
    assert {choice.dest: choice.help for choice in action._choices_actions}.keys() == action.choices.keys()
    assert all(choice.help for choice in action._choices_actions)
    return dict(action.choices)


@pytest.mark.parametrize("name", commands())
def test_every_option_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for action in commands()[name]._actions:
        assert action.help, action.dest
        if action.default not in (None, False, argparse.SUPPRESS):
            assert "%(default)s" in action.help, f"{action.dest}: the default is not told"
    assert status([name, "--help"]) == 0
    assert f"usage: bayescore {name}" in capsys.readouterr().out


@pytest.mark.parametrize("name", commands())
def test_every_command_is_in_the_readme(name: str) -> None:
    assert f"bayescore {name}" in README.read_text(encoding="utf-8")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["--version"]) == 0
    assert capsys.readouterr().out == f"bayescore {bc.__version__}\n"


def shell(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "bayescore", *argv], capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_as_a_program(inputs: Path) -> None:
    done = shell("build", "rows.parquet", "--label", "y", "--size", "100", "-o", "new.parquet")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(bc.read_coreset("new.parquet")) <= 100
    done = shell("build", "cut.parquet", "--label", "y", "-o", "newer.parquet")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("bayescore: error: 'cut.parquet'")
    assert len(done.stderr.splitlines()) == 1
    assert not Path("newer.parquet").exists()


def test_control_characters_in_names_are_written_out(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame().rename(columns={"a": "a\x1b[31m\nb"}).assign(c="text").to_parquet("odd.parquet")
    assert cli.main(["build", "odd.parquet", "--label", "z", "-o", "new"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("bayescore: error: --label 'z' is not a column")
    assert "a\\x1b[31m\\nb" in error
    assert "\x1b" not in error
    assert len(error.splitlines()) == 1


def test_an_interrupt_while_importing_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> argparse.ArgumentParser:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "parser", interrupted)
    assert cli.main(["build"]) == 130
    assert capsys.readouterr().err == "bayescore: interrupted; unfinished files were removed\n"
    code = "import sys, bayescore.cli; print({'numpy', 'rich', 'pandas'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_priors_by_name():
    assert cli.parse_priors("normal(0, 2)") == bc.priors.Normal(0.0, 2.0)
    found = cli.parse_priors("Intercept = student_t(3, 0, 2.5); I(age == 3)[True]=normal(0,1);*=laplace(0,0.5)")
    assert found == {
        "Intercept": bc.priors.StudentT(3.0, 0.0, 2.5),
        "I(age == 3)[True]": bc.priors.Normal(0.0, 1.0),
        "*": bc.priors.Laplace(0.0, 0.5),
    }
    with pytest.raises(ValueError, match="--prior 'flat' is unknown"):
        cli.parse_priors("Intercept=flat")


def test_rows_may_be_csv_or_at_an_address(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame().to_csv("rows.csv", index=False)
    asked = ("--label", "y", "--size", "100", "--method", "uniform", "--quiet")
    assert cli.main(["build", "rows.csv", *asked, "-o", "csv.parquet"]) == 0
    assert cli.main(["build", "rows.parquet", *asked, "-o", "same.parquet"]) == 0
    np.testing.assert_array_equal(bc.read_coreset("csv.parquet").X, bc.read_coreset("same.parquet").X)
    here = (inputs / "rows.parquet").as_uri()
    assert cli.main(["build", here, *asked, "-o", "address.parquet"]) == 0
    np.testing.assert_array_equal(bc.read_coreset("address.parquet").X, bc.read_coreset("same.parquet").X)
    capsys.readouterr()
    assert cli.main(["build", "nope://key:hush@host/rows", *asked, "-o", "x.parquet"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("bayescore: error: data='nope://host/rows' is no address that can be read")
    assert said.count("\n") == 1
    assert "hush" not in said
