"""Write RESULTS.md and README's picture from the CSVs in results/.

`RESULTS.md.j2` holds the order and the prose, each benchmark's module the protocol (its docstring), the CSVs the
figures: none in a table, or in a sentence after it, is typed by hand. Measures nothing and takes seconds.
"""

import ast
import importlib
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from benchmarks.commands import Command, command, commands
from benchmarks.tables import RESULTS

HERE = Path(__file__).parent
PAGE, README = HERE / "RESULTS.md", HERE / "README.md"
PICTURE = RESULTS / "posteriors.png"
Cell = Callable[[pd.Series], Any]
NAMES = {
    "chemreact_ds1_10": "ChemReact (10 PCA)",
    "covtype_ramp16pct": "CovType, 16%",
    "covtype_cover2v4": "CovType 2 v 4 (1% positive)",
    "kddcup99_10pct": "KDD Cup 99 10%, numeric",
    "kddcup99_10pct categories": "KDD Cup 99 10%, with categories",
    "phishing_libsvm": "Phishing",
    "w8a_train": "w8a",
    "quasi-separated": "quasi-separated (made)",
    "gauss": "normal (made)",
}


def short(value: Any, digits: int | None = None) -> str:
    """Return a figure as people read it: integers whole, others with two significant digits, three from 100 on."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    if not isinstance(value, float):
        return NAMES.get(str(value), str(value))
    if not math.isfinite(value):
        return "" if math.isnan(value) else "∞"
    digits = digits or (3 if abs(value) >= 99.5 else 2)
    if value and not 1e-4 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    rounded = float(f"{value:.{digits}g}")
    decimals = max(digits - 1 - math.floor(math.log10(abs(rounded))), 0) if rounded else 0
    return f"{rounded:,.{decimals}f}"


def rows_of(name: str, match: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """Return the rows of ``results/<name>.csv`` in which columns have the values of `match`, or one of a list."""
    frame = pd.read_csv(RESULTS / f"{name}.csv", keep_default_na=False, na_values=[""])
    for column, value in (match or {}).items():
        frame = frame[frame[column].isin(value if isinstance(value, list) else [value])]
    if frame.empty:
        raise ValueError(f"results/{name}.csv has no row with {match}")
    return frame


def cell(name: str, column: str, match: Mapping[str, Any] | None = None) -> Any:
    """Return one figure of ``results/<name>.csv``: that of the only row in which columns have the values of `match`."""
    return rows_of(name, match)[column].item()


def measured(name: str) -> bool:
    """Say whether ``results/<name>.csv`` exists: of a benchmark that has not been run there is no section."""
    return (RESULTS / f"{name}.csv").is_file()


def table(rows: pd.DataFrame, columns: Mapping[str, str | Cell] | None = None) -> str:
    """Return rows as Markdown; `columns` maps a heading to a column or to a function of the row."""
    chosen = columns or {str(name): str(name) for name in rows.columns}
    records = [row for _, row in rows.iterrows()]
    cells = [
        [short(value) for value in (map(pick, records) if callable(pick) else rows[pick])] for pick in chosen.values()
    ]
    numeric = [all(cell[:1].isdigit() or cell[:1] in "-∞" for cell in column) for column in cells]
    lines = [list(chosen), ["---:" if one else "---" for one in numeric], *zip(*cells, strict=True)]
    return "\n".join("| " + " | ".join(cell.strip().replace("|", "\\|") for cell in line) + " |" for line in lines)


def percent_of(column: str) -> Cell:
    """Return the cell of a share in percent."""
    return lambda row: 100.0 * row[column]


def digits_of(column: str, digits: int) -> Cell:
    """Return the cell of a figure with more digits."""
    return lambda row: short(row[column], digits)


def worst_of(column: str, *, percent: bool = False) -> Cell:
    """Return the cell of a median and, in brackets, the worst."""
    factor, unit = (100.0, "%") if percent else (1.0, "")
    return lambda row: "{0}{2} ({1}{2})".format(
        *(short(factor * row[f"{column}, {one}"]) for one in ("median", "worst")), unit
    )


def protocol(module: str) -> str:
    """Return a benchmark's docstring; `module` is its path, or that in the folder of its question."""
    path = next(path for path in (HERE / f"{module}.py", *HERE.glob(f"*/{module}.py")) if path.is_file())
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def tables_of(command: Command) -> list[str]:
    """Return the tables that the file of a command writes, those of its name alone where it has one."""
    name, text = command.name, Path(command.module.__file__).read_text(encoding="utf-8")
    found = [one for one in re.findall(r"""publish\(\s*f?"([a-z_0-9]+)\"""", text) if measured(one)]
    own = [one for one in found if one == name or one.startswith(f"{name}_")]
    return sorted(set(own or ([name] if measured(name) else found)))


def minutes_of(name: str) -> float:
    """Return the minutes that a command took when it was last timed whole; NaN if it, or a part, was not."""
    known = rows_of("minutes")
    own = known.loc[known["command"] == name, "minutes"]
    return float(own.sum(skipna=False)) if len(own) else math.nan


def questions() -> dict[str, list[Command]]:
    """Return the question of each folder of commands, and these."""
    found: dict[str, list[Command]] = {}
    for own in commands().values():
        if not own.last:
            title = str(importlib.import_module(f"benchmarks.{own.folder}").__doc__)
            found.setdefault(title, []).append(own)
    return found


def posteriors() -> pd.DataFrame:
    """Return errors at 20 D rows, logistic, a row for each data set: of Laplace and of three kinds of coresets."""
    full, chosen = rows_of("full_posteriors").set_index("data"), rows_of("posteriors")
    for method in ("uniform", "sensitivity", "calibrated"):
        own = chosen[chosen["method"] == method].drop(columns="method").set_index("data")
        full = full.join(own.add_prefix(f"{method} "))
    full["M"] = 20 * full["D"]
    return full.reset_index()


def render(page: str = "RESULTS.md.j2") -> str:
    """Return the text of a page, from its template."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["short"] = short
    cells = (percent_of, digits_of, worst_of)
    told = (tables_of, minutes_of, questions)
    for known in (rows_of, cell, measured, table, protocol, posteriors, *cells, *told):
        environment.globals[known.__name__] = known
    return re.sub(r"\n{3,}", "\n\n", environment.get_template(page).render())


def draw() -> Figure:
    """Return the picture of README: errors of means on each data set at 20 rows for each column."""
    frame = posteriors().iloc[::-1].reset_index(drop=True)
    figure = Figure(figsize=(8.0, 4.0), layout="constrained")
    axes = figure.add_subplot()
    looks = {
        "uniform": ("uniform subsample", "#D55E00", "s"),
        "sensitivity": ("sensitivity coreset", "#009E73", "^"),
        "Laplace": ("Laplace approximation of all rows", "#777777", "D"),
        "calibrated": ("calibrated coreset", "#0072B2", "o"),
    }
    for name, (label, colour, marker) in looks.items():
        values = frame["Laplace mean" if name == "Laplace" else f"{name} mean, median"]
        axes.plot(values, frame.index, marker, color=colour, label=label, ms=6)
    noise = frame["calibrated mean, noise"].median()
    axes.axvspan(0.01, noise, color="#e6e6e6", lw=0, label="one Monte Carlo standard error")
    axes.set(xscale="log", xlim=(0.01, None), xlabel="largest error of a posterior mean, in posterior sds")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.set_yticks(
        frame.index,
        [f"{NAMES.get(row.data, row.data)}: {row.M:,} of {row.N:,} rows" for row in frame.itertuples()],
    )
    axes.grid(axis="x", color="#dddddd", lw=0.6)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    figure.legend(loc="outside upper right", ncols=3, frameon=False, fontsize=8)
    return figure


@command("results", last=True)
def main() -> None:
    for page in (PAGE, README):
        page.write_text(render(f"{page.name}.j2"), encoding="utf-8")
    draw().savefig(PICTURE, dpi=150, metadata={"Software": None})
    print(f"wrote {PAGE}, {README} and {PICTURE}")
