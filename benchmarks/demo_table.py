"""The demo at N = 1e6: coresets against the exact full-data posterior, merged identical rows; also draws a picture."""

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
from rich.console import Console

from bayescore.demo import run_demo
from bayescore.diagnostics.agreement import predicted_error
from bayescore.diagnostics.certificate import Certificate
from benchmarks.tables import RESULTS, publish


def told(certificate: Certificate | None) -> dict[str, object]:
    """Return a certificate's level, k-hat and largest predicted error of a mean; blank where there is none."""
    if certificate is None:
        return dict.fromkeys(("certificate", "pareto_k", "predicted_error_sd", "predicted_error_sd_mcse"))
    error, mcse = predicted_error(certificate) if certificate.trusted else (None, None)
    return {
        "certificate": certificate.level,
        "pareto_k": certificate.pareto_k,
        "predicted_error_sd": error,
        "predicted_error_sd_mcse": mcse,
    }


def main() -> None:
    mpl.use("Agg")
    with TemporaryDirectory() as folder:
        result, certificates = run_demo(1_000_000, Path(folder), 0, False, Console(quiet=True))
    shown = ["mmd_whitened", "mean_error_sd", "mean_error_sd_mcse", "sd_error", "sd_error_mcse", "nll"]
    publish(
        "demo_table",
        [{"posterior": name, **row[shown], **told(certificates.get(name))} for name, row in result.metrics.iterrows()],
    )
    axes = result.plot_mmd()
    axes.figure.savefig(RESULTS / "demo_mmd.png", dpi=150, bbox_inches="tight")
