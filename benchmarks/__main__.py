"""Run the benchmarks: ``python -m benchmarks [NAME ...]``; all of them without a name."""

import sys

from benchmarks import (
    build_speed,
    calibrated,
    demo_table,
    mala_speed,
    mean_sensitivity,
    posteriors,
    priors,
    references,
    rivals,
    wall_time,
)

BENCHMARKS = {
    "mean_sensitivity": mean_sensitivity.main,
    "build_speed": build_speed.main,
    "mala_speed": mala_speed.main,
    "references": references.main,
    "demo_table": demo_table.main,
    "calibrated": calibrated.main,
    "posteriors": posteriors.main,
    "priors": priors.main,
    "rivals": rivals.main,
    "wall_time": wall_time.main,
}

if __name__ == "__main__":
    names = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]!r}; choose from {', '.join(BENCHMARKS)}")
    for name in names:
        print(f"\n## {name}\n{sys.modules[BENCHMARKS[name].__module__].__doc__}")
        BENCHMARKS[name]()
