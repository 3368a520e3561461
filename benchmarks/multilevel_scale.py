"""Rows in 10,000 groups, in Parquet: a multilevel coreset, its draws and their certificate, in time and memory.

Nine normal columns of float32, an intercept and `(1 | g)`, groups of lognormal sizes. N = 2e7 (``--rows``), written for
the purpose and deleted. All in one process, after a small build that compiles: seconds of the build, of 4 x 1000 draws
and of the certificate; "peak MB" is the memory of the whole process at its highest, "before" that after imports and the
small build.
"""

import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import special

import bayescore as bc
from benchmarks.multilevel_speed import smallest_ess
from benchmarks.sources import alone, peak_mb
from benchmarks.tables import publish

N, GROUPS, P, ROW_GROUP = 20_000_000, 10_000, 10, 1 << 20


@contextmanager
def rows_file(n: int, n_groups: int) -> Iterator[Path]:
    """Write n rows in groups, a row group at a time; the file is deleted at the end."""
    rng = np.random.default_rng(0)
    share, u = rng.lognormal(0.0, 0.8, n_groups), rng.normal(size=n_groups)
    names, slopes = [f"x{d}" for d in range(1, P)], np.linspace(-0.5, 0.5, P - 1)
    schema = pa.schema([*((name, pa.float32()) for name in names), ("g", pa.int32()), ("y", pa.int8())])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        with pq.ParquetWriter(path, schema) as file:
            for start in range(0, n, ROW_GROUP):
                X = rng.standard_normal((min(ROW_GROUP, n - start), P - 1), dtype=np.float32)
                g = rng.choice(n_groups, len(X), p=share / share.sum()).astype(np.int32)
                y = (rng.random(len(X)) < special.expit(-2.0 + X @ slopes + u[g])).astype(np.int8)
                file.write_table(pa.table([*X.T, g, y], schema=schema), row_group_size=ROW_GROUP)
        yield path


def whole_way(path: Path) -> dict[str, float | str]:
    """Build, draw and certify; what that took."""
    told = {"label": "y", "progressbar": False}
    begin = time.perf_counter()
    core = bc.build_coreset(path, groups="g", intercept=True, method="multilevel", random_state=0, **told)
    build, peak = time.perf_counter() - begin, peak_mb()
    idata = bc.sample(core, draws=1000, tune=1000, chains=4, random_seed=1, progressbar=False)
    drawn = time.perf_counter() - begin
    found = bc.certify(idata, core, path, **told)
    return {
        "N": pq.ParquetFile(path).metadata.num_rows,
        "G": len(core.groups[0]),
        "p": core.n_features,
        "rows": len(core),
        "passes": core.params["passes"],
        "build_s": build,
        "sample_s": drawn - build,
        "certify_s": time.perf_counter() - begin - drawn,
        "ess": smallest_ess(idata.posterior),
        "level": found.level,
        "log_ratio_sd": found.log_ratio_sd,
        "peak MB, build": peak,
        "peak MB": peak_mb(),
    }


def measured(path: Path, warm: Path) -> dict[str, float | str]:
    """Compile by a small file, then do `whole_way`, in this fresh process."""
    warnings.simplefilter("ignore", UserWarning)
    whole_way(warm)
    before = peak_mb()
    return {**whole_way(path), "before": before}


def main(rows: int = N) -> None:
    """Publish one row."""
    with rows_file(100_000, 100) as warm, rows_file(rows, GROUPS) as path:
        publish("multilevel_scale", [alone(measured, path, warm)])
