"""What does README's example print? It is run as it stands; its output and pictures are written anew."""

import re
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl

import bayescore as bc
from bayescore.demo import write_pictures
from benchmarks.commands import command
from benchmarks.tables import RESULTS

PAGE = Path(__file__).resolve().parents[2] / "README.md"
EXAMPLE = re.compile(r"```python\n(import bayescore as bc\n.*?)```", re.DOTALL)
PRINTED = re.compile(r"(?<=```text\n).*?(?=```)", re.DOTALL)
WARM_ROWS = 3000  # of a first run, which compiles


def example() -> str:
    """Return the code of README's first example."""
    found = EXAMPLE.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def run(code: str) -> tuple[bc.Fit, str]:
    """Run it in an empty folder; return the fit and what was printed."""
    names: dict[str, object] = {}
    with TemporaryDirectory() as folder, StringIO() as printed:
        with redirect_stdout(printed):
            exec(code.replace("report.html", f"{folder}/report.html"), names)
        fit, text = names["fit"], printed.getvalue()
    assert isinstance(fit, bc.Fit)
    return fit, "".join(f"{line.rstrip()}\n" for line in text.splitlines())


@command("readme")
def main() -> None:
    mpl.use("Agg")
    code = example().replace("random_state=0)\nprint", "random_state=0, progressbar=False)\nprint")
    run(code.replace("1_000_000", str(WARM_ROWS)))
    fit, text = run(code)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(PRINTED.sub(lambda _: text, page, count=1), encoding="utf-8")
    write_pictures(fit, RESULTS)
    print(f"{fit.coreset.n_total:,} rows, a coreset of {len(fit.coreset)}, {fit.level}", file=sys.stderr)
