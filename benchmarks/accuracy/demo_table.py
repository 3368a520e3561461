"""How near are coresets of a million rows of Binary10 to the exact posterior? A table and a picture."""

import matplotlib as mpl

import bayescore as bc
from bayescore.report.certify import Certificate
from bayescore.report.compare import Comparison
from bayescore.report.tables import predicted_error
from benchmarks.commands import command
from benchmarks.tables import RESULTS, publish

ROWS, TEST_ROWS = 1_000_000, 1000
SIZES = (100, 300, 1000, 3000)
METHODS = ("uniform", "sensitivity", "calibrated")


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


def posteriors() -> tuple[Comparison, dict[str, Certificate]]:
    """Return what coresets of three methods say beside all rows, and their certificates."""
    quiet = {"progressbar": False}
    X, y = bc.datasets.binary10(ROWS + TEST_ROWS, random_state=0)
    test = bc.all_rows(X[ROWS:], y[ROWS:], **quiet)
    X, y = X[:ROWS], y[:ROWS]
    merged = bc.build_coreset(X, y, method="aggregate", random_state=0, **quiet)
    reference = bc.sample(merged, sampler="nuts", chains=4, draws=1000, random_seed=0, **quiet)
    found = {"full data, MALA": bc.sample(merged, sampler="mala", random_seed=1, **quiet)}
    certificates = {}
    for method in METHODS:
        for size in SIZES:
            core = bc.build_coreset(X, y, method=method, size=size, random_state=0, **quiet)
            name = f"{method} {size}"
            found[name] = bc.sample(core, sampler="mala", random_seed=2, **quiet)
            # the merged rows are the full data, so this is the pass over all of them
            certificates[name] = bc.certify(found[name], core, merged, **quiet)
    return bc.compare_posteriors(found, reference, test=test), certificates


@command("demo_table")
def main() -> None:
    mpl.use("Agg")
    result, certificates = posteriors()
    shown = ["mmd_whitened", "mean_error_sd", "mean_error_sd_mcse", "sd_error", "sd_error_mcse", "nll"]
    publish(
        "demo_table",
        [{"posterior": name, **row[shown], **told(certificates.get(name))} for name, row in result.metrics.iterrows()],
    )
    axes = result.plot_mmd()
    axes.figure.savefig(RESULTS / "demo_mmd.png", dpi=150, bbox_inches="tight")
