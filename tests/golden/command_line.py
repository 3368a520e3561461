"""The command line: what each command prints and returns, of good and of bad input, and what it writes."""

import contextlib
import io
import os
import re
import shlex
import shutil
import warnings
from collections.abc import Iterator
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.cli import COMMANDS, main
from bayescore.samplers.posterior import load_posterior
from tests.golden import pupils, view, view_fits
from tests.golden.case import EFFECTS, ROUNDING, Fields, case

WIDTH = "100"
FIRST = "bayescore build pupils.parquet --formula 'passed ~ hours + way' --size 60 -o core.parquet"
CHAIN = (
    FIRST,
    "bayescore sample core.parquet --draws 400 --tune 200 --seed 1 -o draws.nc",
    "bayescore sample core.parquet --draws 20 --tune 200 -o few.nc",
    "bayescore fit pupils.parquet 'passed ~ hours + way' --seed 1 -o model",
    "bayescore fit pupils.csv 'passed ~ hours + way + (1 | school)' --seed 1 -o grouped",
)


def run(words: str) -> list[str]:
    """Return a command of the command line, its exit status, and what it prints, without times and versions."""
    streams = {"out": io.StringIO(), "err": io.StringIO()}
    with (
        patch.dict(os.environ, COLUMNS=WIDTH),
        contextlib.redirect_stdout(streams["out"]),
        contextlib.redirect_stderr(streams["err"]),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("always", category=UserWarning)
        warnings.filterwarnings("ignore", "PyTensor could not link", UserWarning)
        try:
            status = main(
                [*shlex.split(words)[1:], *([] if "--help" in words or "--version" in words else ["--quiet"])]
            )
        except SystemExit as end:  # of argparse
            status = int(end.code or 0)
    printed = [f"$ {words}", f"status {status}"]
    for name, stream in streams.items():
        printed += [f"{name}: {plain(line)}" for line in stream.getvalue().splitlines()]
    return printed


def plain(line: str) -> str:
    """Return a line without seconds, versions, the folder where it was printed, and words of other libraries."""
    line = line.replace(f"{Path.cwd()}{os.sep}", "FOLDER/").replace(f"bayescore {version('bayescore')}", "bayescore #")
    line = re.sub(r"(is not a [\w ]*file) \(.*\);", r"\1 (#);", line)  # in the words of other libraries
    line = re.sub(r"(cannot be read, at '.*?':) .*", r"\1 #", line)
    if "invalid choice" in line:  # quoted until Python 3.13
        line = line.replace("'", "")
    return view_fits.timeless(line).rstrip()


@contextlib.contextmanager
def inside(folder: str | Path) -> Iterator[None]:
    """Work inside a folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@cache
def _written() -> tuple[TemporaryDirectory[str], dict[str, list[str]]]:
    """Return a folder with rows, a coreset, draws and fits, and what the commands printed that made them."""
    folder = TemporaryDirectory()
    with inside(folder.name):
        pupils.FIRST.to_parquet("pupils.parquet")
        pupils.FIRST.to_csv("pupils.csv", index=False)
        pupils.MORE.to_parquet("more.parquet")
        pupils.MORE.iloc[::40].to_csv("new.csv", index=False)
        pupils.MORE.drop(columns="way").to_csv("lacking.csv", index=False)
        Path("broken.parquet").write_bytes(Path("pupils.parquet").read_bytes()[:2_000])
        Path("notes.nc").write_text("no draws\n", encoding="utf-8")
        return folder, {words: run(words) for words in CHAIN}


def after(*commands: str) -> Fields:
    """Return what commands print, one after another, in a copy of the folder with rows and fits; and what is new."""
    with TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        shutil.copytree(_written()[0].name, work)
        with inside(work):
            before = set(Path().iterdir())
            lines = [line for words in commands for line in run(words)]
            new = sorted(set(Path().iterdir()) - before)
            return {"printed": lines, "new": list(map(str, new)), **_content(new)}


def _content(new: list[Path]) -> Fields:
    """Return some of what is in new files: numbers of tables, draws and coresets, and commands that pages name."""
    found: dict[str, np.ndarray | list[str]] = {}
    for path in new:
        if path.suffix == ".csv":
            found |= view_fits.matrix(pd.read_csv(path).iloc[:, -4:], path.name)
        elif path.suffix == ".nc":
            draws = load_posterior(path).posterior["beta"].values
            found |= {f"{path.name} beta": np.stack([draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))])}
        elif path.name.startswith("core"):
            core = bc.read_coreset(path)
            found |= {f"{path.name} weights": core.weights, f"{path.name} index": core.index}
        elif path.suffix == ".parquet":
            found |= view_fits.matrix(pd.read_parquet(path).iloc[:, -4:], path.name)
        elif path.suffix == ".html":
            text = view.of_page(path)["text"]
            found[f"{path.name} commands"] = [line for line in text if re.match("bayescore [a-z]+ ", line)]
            found[f"{path.name} lines"] = np.array([len(text)])
        elif path.is_dir():
            found |= view_fits.matrix(bc.read_fit(path).summary(), path.name)
    return found


def first(words: str) -> Fields:
    """Return what a command prints whose file others take."""
    return {"printed": _written()[1][words]}


for _words in CHAIN:
    case(_words.removeprefix("bayescore "), of_stack=True)(partial(first, _words))

# --- good input -------------------------------------------------------------------------------------------------------

GOOD = {
    "fit, weights, offset, priors by name": (
        "fit pupils.csv 'passed ~ hours + way' --weights w --offset known --prior 'hours=normal(0,0.05);*=normal(0,1)' "
        "--seed 3 -o made",
    ),
    "fit, clusters and strata": (
        "fit pupils.parquet 'passed ~ hours' --cluster room --strata region -o made",
        "predict made new.csv -o rows.csv",
        "update made more.parquet",
    ),
    "fit, counts": ("fit pupils.parquet 'days ~ hours + way' --family poisson --exposure weeks -o made",),
    "fit, numbers": ("fit pupils.parquet 'score ~ hours + way' --family normal -o made",),
    "fit, columns of text, groups": ("fit pupils.parquet --label passed --groups school -o made",),
    "update": ("update model more.parquet -o made",),
    "update, two files, one twice": ("update model more.parquet more.parquet -o made",),
    "update, a second file that lacks a column": ("update model more.parquet lacking.csv -o made",),
    "update, by other rows than all": ("update model more.parquet --data new.csv -o made",),
    "predict": ("predict model new.csv --prob 0.8 -o rows.csv", "predict model pupils.parquet -o rows.parquet"),
    "predict, new groups": (
        "predict grouped new.csv --seed 7 -o rows.csv",
        "predict grouped new.csv --new-groups average -o more.csv",
    ),
    "build, multilevel": ("build pupils.csv --formula 'passed ~ hours + (1 | school)' --seed 2 -o core.2.parquet",),
    "build, uniform, standardized": (
        "build pupils.parquet --label passed --method uniform --size 80 --intercept --standardize -o core.2.parquet",
    ),
    "build, counts": (
        "build pupils.parquet --formula 'days ~ hours' --family poisson --exposure weeks --tolerance 0.2 "
        "--prior 'student_t(3,0,1)' -o core.2.parquet",
    ),
    "sample, another sampler and prior": (
        "sample core.parquet --sampler mala --prior 'cauchy(0,2.5)' --draws 100 --tune 100 --chains 2 -o other.nc",
    ),
    "certify": ("certify draws.nc core.parquet pupils.csv --corrected better.nc -o page.html",),
    "certify, test rows": ("certify draws.nc core.parquet pupils.parquet --test more.parquet -o page.html",),
    "certify, too few draws": ("certify few.nc core.parquet pupils.csv",),
    "compare": (
        "sample core.parquet --draws 400 --tune 200 --seed 9 -o other.nc",
        "compare other.nc few.nc --reference draws.nc -o page.html",
    ),
}

for _name, _commands in GOOD.items():
    _rounding = EFFECTS if "groups" in _name else ROUNDING
    case(_name, of_stack=True, tolerance=_rounding)(partial(after, *(f"bayescore {words}" for words in _commands)))

# --- bad input --------------------------------------------------------------------------------------------------------

BAD = {
    "fit": (
        "fit absent.parquet 'passed ~ hours' -o made",
        "fit broken.parquet 'passed ~ hours' -o made",
        "fit pupils.parquet 'passed ~ height' -o made",
        "fit pupils.parquet 'school ~ hours' -o made",
        "fit pupils.parquet 'passed ~ hours +' -o made",
        "fit pupils.parquet -o made",
        "fit pupils.parquet 'passed ~ hours' --weights heavy -o made",
        "fit pupils.parquet 'passed ~ hours' --cluster absent -o made",
        "fit pupils.parquet 'passed ~ hours + (1 | school)' --cluster room -o made",
        "fit pupils.parquet 'passed ~ hours' --family gaussian -o made",
        "fit pupils.parquet 'days ~ hours' --family poisson --positive yes -o made",
        "fit pupils.parquet 'passed ~ hours' --missing maybe -o made",
        "fit pupils.parquet 'passed ~ hours' --prior 'flat(1)' -o made",
        "fit pupils.parquet 'passed ~ hours' --prior 'height=normal(0,1)' -o made",
        "fit pupils.parquet 'passed ~ hours' --group-prior 'half_normal(1)' -o made",
        "fit pupils.parquet 'passed ~ hours' --seed -3 -o made",
        "fit pupils.parquet 'passed ~ hours' --seed one -o made",
        "fit pupils.parquet 'passed ~ hours' -o nowhere/made",
        "fit pupils.parquet 'passed ~ hours' -o pupils.csv",
        "fit pupils.parquet 'passed ~ hours'",
    ),
    "update": (
        "update absent more.parquet",
        "update model",
        "update model absent.parquet",
        "update model lacking.csv -o made",
    ),
    "predict": (
        "predict absent new.csv -o rows.csv",
        "predict model absent.csv -o rows.csv",
        "predict model lacking.csv -o rows.csv",
        "predict model new.csv --prob 1.5 -o rows.csv",
        "predict model new.csv -o new.csv",
        "predict model new.csv -o rows.xlsx",
    ),
    "build": (
        "build pupils.parquet -o core.2.parquet",
        "build pupils.parquet --label passed --method fast -o core.2.parquet",
        "build pupils.parquet --label passed --size many -o core.2.parquet",
        "build pupils.parquet --label passed --size 0 -o core.2.parquet",
        "build pupils.parquet --label passed -o pupils.parquet",
    ),
    "sample": (
        "sample pupils.parquet -o other.nc",
        "sample core.parquet --sampler gibbs -o other.nc",
        "sample core.parquet --sampler collapsed -o other.nc",
        "sample core.parquet --sampler fast -o other.nc",
        "sample core.parquet --draws 0 -o other.nc",
        "sample core.parquet -o core.parquet",
    ),
    "certify": (
        "certify absent.nc core.parquet pupils.csv",
        "certify notes.nc core.parquet pupils.csv",
        "certify draws.nc core.parquet more.parquet",
        "certify draws.nc core.parquet pupils.csv --test more.parquet",
        "certify draws.nc core.parquet pupils.csv -o draws.nc",
    ),
    "compare": (
        "compare absent.nc --reference draws.nc -o page.html",
        "compare draws.nc -o page.html",
        "compare draws.nc --reference notes.nc -o page.html",
        "compare draws.nc --reference draws.nc -o nowhere/page.html",
    ),
    "demo": ("demo --rows 10 -o made", "demo --rows 2000 -o new.csv"),
}

for _name, _commands in BAD.items():
    case(f"errors of {_name}")(partial(after, *(f"bayescore {words}" for words in _commands)))


@case("errors of certify, no corrected draws", of_stack=True)
def of_no_corrected_draws() -> Fields:
    return after("bayescore certify few.nc core.parquet pupils.csv --corrected better.nc")


# --- help -------------------------------------------------------------------------------------------------------------


@case("help")
def of_help() -> Fields:
    found = {}
    for command in ("", *COMMANDS):
        words = " ".join(" ".join(line.removeprefix("out: ").split()) for line in run(f"bayescore {command} --help"))
        # Python 3.13 says "-o, --output OUTPUT", those before "-o OUTPUT, --output OUTPUT"; breaks of lines differ too
        words = re.sub(r"(--?[\w-]+) ([A-Z]+), (--[\w-]+) \2", r"\1, \3 \2", words)
        found[f"help {command}".strip()] = [
            words[words.index("positional arguments") if "positional" in words else 0 :]
        ]
    return {**found, "version": run("bayescore --version")}
