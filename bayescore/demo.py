"""The main job on built-in data: a million rows, three kinds of coresets, and how close each posterior comes.

Each coreset's posterior is certified without the full-data posterior, then measured against it. The
full-data posterior is exact and cheap here: the data are binary, so merging identical rows loses nothing.
"""

import shlex
from pathlib import Path

import numpy as np
from rich.console import Console

from bayescore.coresets.build import all_rows, build_coreset
from bayescore.data.synthetic import binary10
from bayescore.diagnostics import Comparison, compare
from bayescore.diagnostics.certificate import Certificate, certify
from bayescore.diagnostics.report import write_report
from bayescore.samplers.files import check_whole, write_posterior
from bayescore.samplers.sample import sample
from bayescore.validation import check_integer

SIZES = (100, 300, 1000, 3000)
METHODS = ("uniform", "sensitivity", "calibrated")


def run_demo(
    rows: int, folder: Path, seed: int, progressbar: bool, console: Console
) -> tuple[Comparison, dict[str, Certificate]]:
    """Build, sample, certify, compare; write ``report.html``, ``metrics.csv``, a coreset and its posterior."""
    check_integer(rows, "rows", low=4 * SIZES[-1])
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"--output={str(folder)!r} is a file; give the name of a folder")
    folder.mkdir(parents=True, exist_ok=True)
    X, y = binary10(rows + 1000, random_state=seed)
    test = all_rows(X[rows:], y[rows:], progressbar=False)
    X, y = X[:rows], y[:rows]
    console.print(f"Binary10: {rows:,} rows, {X.shape[1]} columns, {np.mean(y > 0):.1%} positive")
    merged = build_coreset(X, y, method="aggregate", random_state=seed, progressbar=progressbar)
    console.print(f"full data: {len(merged)} distinct rows, so its posterior is exact; NUTS ...")
    reference = sample(merged, sampler="nuts", chains=4, draws=1000, random_seed=seed, progressbar=progressbar)
    check_whole(reference, chains=4, draws=1000)
    posteriors = {"full data, MALA": sample(merged, sampler="mala", random_seed=seed + 1, progressbar=progressbar)}
    certificates = {}
    for method in METHODS:
        for size in SIZES:
            core = build_coreset(X, y, method=method, size=size, random_state=seed, progressbar=progressbar)
            name = f"{method} {size}"
            console.print(f"{name}: {len(core)} distinct rows, weights' ESS {core.weight_ess:.0f}; MALA ...")
            posteriors[name] = sample(core, sampler="mala", random_seed=seed + 2, progressbar=progressbar)
            # the merged rows are the full data, so this is the pass over all of them
            certificates[name] = certify(posteriors[name], core, merged, progressbar=progressbar)
    core.to_parquet(folder / "core.parquet")
    write_posterior(posteriors[name], folder / "posterior.nc")
    result = compare(posteriors, reference, test=test)
    result.metrics.to_csv(folder / "metrics.csv")
    command = shlex.join(["bayescore", "demo", "--rows", str(rows), "--seed", str(seed), "-o", str(folder)])
    title = f"Coresets of {rows:,} rows of Binary10"
    write_report(result, folder / "report.html", certificates=certificates, title=title, command=command)
    return result, certificates
