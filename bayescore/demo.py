"""The main job on built-in data: a million visits to a shop, fitted, certified, and beside the truth."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from rich.console import Console

from bayescore.datasets import TRUTH, clicks
from bayescore.fitting import Fit, fit
from bayescore.report.pictures import COLOURS
from bayescore.validation import check_integer

FORMULA = "clicked ~ age + log(income) + visits + device + (1 | county)"
FEWEST_ROWS = 2000


def run_demo(rows: int, folder: Path, seed: int, progressbar: bool, console: Console) -> Fit:
    """Fit simulated rows; write the fit, ``report.html`` and a picture to a folder."""
    check_integer(rows, "rows", low=FEWEST_ROWS)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"--output={str(folder)!r} is a file; give the name of a folder")
    folder.mkdir(parents=True, exist_ok=True)
    mpl.use("Agg")  # pictures go to files
    data = clicks(rows, random_state=seed)
    console.print(f"{rows:,} visits to a shop, {data['clicked'].mean():.1%} clicked: {FORMULA}")
    result = fit(FORMULA, data, random_state=seed, progressbar=progressbar)
    result.save(folder / "model")
    result.report(folder / "report.html")
    write_coefficients(result, folder / "coefficients.png")
    return result


def write_coefficients(result: Fit, path: Path) -> None:
    """Draw the coefficients' means and intervals, and the truth of `clicks`."""
    axes = result.plot()
    names = [text.get_text() for text in axes.get_yticklabels()]
    scales = dict(zip(result.coreset.feature_names, result.coreset.design.scales, strict=True))
    truth = [TRUTH[name] * scales[name] for name in names]
    axes.plot(truth, range(len(names)), "|", color=COLOURS[1], ms=16, mew=2.0, label="truth")
    axes.legend(frameon=False, loc="lower right")
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    figure.savefig(path, dpi=150, bbox_inches="tight")
