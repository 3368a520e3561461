"""The demo at N = 1e6: both kinds of coresets against the exact full-data posterior; also draws README's picture."""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
from rich.console import Console

from bayescore.demo import run_demo
from benchmarks.tables import RESULTS, publish


def main() -> None:
    mpl.use("Agg")
    with TemporaryDirectory() as folder:
        result = run_demo(1_000_000, Path(folder), 0, False, Console(quiet=True))
    shown = ["mmd_whitened", "mean_error_sd", "mean_error_sd_mcse", "sd_error", "sd_error_mcse", "nll"]
    publish("demo_table", [{"posterior": name, **row[shown]} for name, row in result.metrics.iterrows()])
    axes = result.plot_mmd()
    axes.figure.savefig(RESULTS / "demo_mmd.png", dpi=150, bbox_inches="tight")
