"""Run the benchmarks: ``python -m benchmarks [NAME ...] [--trials N] [--rows N] ...``; all of them without a name."""

import argparse
import inspect
import sys
import time

from benchmarks import (
    billion,
    build_passes,
    build_speed,
    calibrated,
    certificate_checks,
    certificate_cost,
    certificates,
    certified_kl,
    cloglog,
    cold_start,
    columns,
    condensed,
    condensed_streams,
    dask_groups,
    data_frames,
    default_sampler,
    demo_table,
    earlier,
    fit_sets,
    forgeries,
    formulas,
    gibbs,
    leverage,
    mala_speed,
    mean_sensitivity,
    memory,
    merge_reduce,
    mixing,
    multilevel,
    multilevel_sbc,
    multilevel_scale,
    multilevel_speed,
    multilevel_terms,
    normal,
    poisson,
    posteriors,
    priors,
    readme,
    real_analyses,
    references,
    rival_posteriors,
    rivals,
    sbc,
    scale,
    separability,
    several_terms,
    several_terms_modes,
    several_terms_sbc,
    sigma,
    sigma_posteriors,
    sources,
    stacks,
    streams,
    surveys,
    update,
    variates_coresets,
    variates_peers,
    variates_private,
    variates_speed,
    wall_time,
    write_results,
)
from benchmarks.papers import huggins, nock, page, peters
from benchmarks.papers.huggins.problems import PROBLEMS, READINGS
from benchmarks.papers.peters.loss import SIZES
from benchmarks.problems import SHARED
from benchmarks.reference_posteriors import make as reference_posteriors
from benchmarks.tables import ALL, keep_minutes

# what `make evidence` runs, in this order
EVIDENCE = {
    **huggins.COMMANDS,
    **peters.COMMANDS,
    **nock.COMMANDS,
    "reference_posteriors": reference_posteriors.main,
    **sbc.COMMANDS,
    "rival_posteriors": rival_posteriors.main,
    "scale": scale.main,
    "papers": page.main,
}
BENCHMARKS = {
    "stacks": stacks.main,
    "cold_start": cold_start.main,
    "mean_sensitivity": mean_sensitivity.main,
    "build_speed": build_speed.main,
    "build_passes": build_passes.main,
    "mala_speed": mala_speed.main,
    "default_sampler": default_sampler.main,
    "mixing": mixing.main,
    "gibbs": gibbs.main,
    "readme": readme.main,
    "real_analyses": real_analyses.main,
    "references": references.main,
    "demo_table": demo_table.main,
    "calibrated": calibrated.main,
    "columns": columns.main,
    "cloglog": cloglog.main,
    "poisson": poisson.main,
    "negative_binomial": poisson.negative_binomial,
    "normal": normal.main,
    "condensed": condensed.main,
    "condensed_streams": condensed_streams.main,
    "posteriors": posteriors.main,
    "priors": priors.main,
    "rivals": rivals.main,
    "wall_time": wall_time.main,
    "separability": separability.main,
    "sigma": sigma.main,
    "sigma_posteriors": sigma_posteriors.main,
    "repeated_measures": sigma_posteriors.main_repeated,
    "merge_reduce": merge_reduce.main,
    "multilevel": multilevel.main,
    "multilevel_sbc": multilevel_sbc.main,
    "many_groups": multilevel_scale.many,
    "multilevel_scale": multilevel_scale.main,
    "multilevel_speed": multilevel_speed.main,
    "multilevel_terms": multilevel_terms.main,
    "several_terms": several_terms.main,
    "several_terms_large": several_terms.main_large,
    "several_terms_modes": several_terms_modes.main,
    "several_terms_sbc": several_terms_sbc.main,
    "sources_builders": sources.builders,
    "sources_passes": sources.passes,
    "sources_processes": sources.processes,
    "memory": memory.main,
    "fit_sets": fit_sets.main,
    "update": update.main,
    "streams": streams.main,
    "survey_coverage": surveys.coverage,
    "survey_errors": surveys.errors,
    "formulas": formulas.main,
    "data_frames": data_frames.main,
    "leverage_sketch": leverage.sketch,
    "leverage_speed": leverage.speed,
    "variates_speed": variates_speed.main,
    "variates_peers": variates_peers.main,
    "variates_private": variates_private.main,
    "variates_coresets": variates_coresets.main,
    "certificates": certificates.main,
    "certificate_cost": certificate_cost.main,
    "certificate_groups": certificate_cost.main_groups,
    "loo_cost": certificate_cost.main_loo,
    "average_predictions": certificate_cost.main_averages,
    "dask_groups": dask_groups.main,
    "billion": billion.main,
    "certificate_defaults": certificate_checks.defaults,
    "certificate_corrections": certificate_checks.corrections,
    "certified_kl": certified_kl.main,
    "forgeries": forgeries.main,
    "earlier": earlier.main,
    "results": write_results.main,
    **EVIDENCE,
}
# the data sets of benchmarks that take `--only`
ONLY = {
    "billion": billion.SETS,
    "certified_kl": certified_kl.SETS,
    "condensed": condensed.SETS,
    "fit_sets": tuple(fit_sets.SETS),
    "huggins_quality": (*PROBLEMS, *READINGS),
    "peters_loss": SIZES,
    "reference_posteriors": (*reference_posteriors.DATA, *reference_posteriors.WEIGHTED),
    "rival_posteriors": rival_posteriors.DATA,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run the benchmarks.")
    choices = ", ".join(BENCHMARKS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all by default; evidence, or of {choices}")
    parser.add_argument("--trials", type=int, help="how many, of benchmarks that count them")
    parser.add_argument("--rows", type=int, help="of benchmarks that can run on fewer")
    parser.add_argument("--rivals", help="comma-separated, of benchmarks that name them")
    parser.add_argument("--cap", type=float, help="seconds for each rival, of benchmarks that stop them")
    parser.add_argument("--only", nargs="+", metavar="DATA", help="data sets, of benchmarks that keep the other rows")
    parser.add_argument("--workers", type=int, help="processes, of benchmarks that share their work out")
    parser.add_argument(
        "--quick",
        action="store_true",
        default=None,
        help="in miniature, into .quick/, of benchmarks in `evidence` and `memory`",
    )
    asked = vars(parser.parse_args())
    names = asked.pop("names") or list(BENCHMARKS)
    names = [one for name in names for one in (EVIDENCE if name == "evidence" else (name,))]
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]!r}; choose from {choices}")
    for name in names if asked["only"] else []:
        absent = [one for one in asked["only"] if one not in ONLY.get(name, ())]
        if absent:
            known = ", ".join(map(repr, ONLY.get(name, ()))) or "none: it takes no --only"
            sys.exit(f"--only: {name} has no data set {absent[0]!r}; its data sets are {known}")
    options = {name: value for name, value in asked.items() if value is not None}
    parts = [(name, data) for name in EVIDENCE if name != "papers" for data in ONLY.get(name, [ALL])]
    for name in names:
        print(f"\n## {name}\n{sys.modules[BENCHMARKS[name].__module__].__doc__}")
        taken = inspect.signature(BENCHMARKS[name]).parameters
        told = {option: value for option, value in options.items() if option in taken}
        timed = name in EVIDENCE and name != "papers" and not told.keys() - {"workers", "only"}
        # what is timed runs one data set after the other, so that a table can be made in several sessions
        sets = told.pop("only", ONLY[name]) if timed and name in ONLY else [ALL]
        for data in sets:
            begin = time.perf_counter()
            BENCHMARKS[name](**told, **({} if data == ALL else {"only": [data]}))
            if timed and SHARED.is_dir():  # else what is not run takes no time
                keep_minutes(name, data, time.perf_counter() - begin, parts)
