"""Run the benchmarks: ``python -m benchmarks [NAME ...] [--trials N] [--rows N] ...``; all of them without a name."""

import argparse
import inspect
import sys
import time

from benchmarks.commands import commands
from benchmarks.problems import SHARED
from benchmarks.tables import ALL, keep_minutes

if __name__ == "__main__":
    known = commands()
    evidence = [name for name, own in known.items() if own.evidence]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run the benchmarks.")
    choices = ", ".join(known)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all by default; evidence, or of {choices}")
    parser.add_argument("--trials", type=int, help="how many, of benchmarks that count them")
    parser.add_argument("--rows", type=int, help="of benchmarks that can run on fewer")
    parser.add_argument("--only", nargs="+", metavar="DATA", help="data sets, of benchmarks that keep the other rows")
    parser.add_argument("--published", help="folder of published rows, of benchmarks that read some that are not here")
    parser.add_argument("--kept", help="folder of what is kept from run to run, of benchmarks that keep references")
    parser.add_argument("--workers", type=int, help="processes, of benchmarks that share their work out")
    parser.add_argument(
        "--quick",
        action="store_true",
        default=None,
        help="in miniature, into .quick/, of benchmarks in `evidence`",
    )
    asked = vars(parser.parse_args())
    names = asked.pop("names") or list(known)
    whole = "evidence" not in names  # else only the sets that are evidence
    names = [one for name in names for one in (evidence if name == "evidence" else (name,))]
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]!r}; choose from {choices}")
    for name in names if asked["only"] else []:
        absent = [one for one in asked["only"] if one not in known[name].sets]
        if absent:
            sets = ", ".join(map(repr, known[name].sets)) or "none: it takes no --only"
            sys.exit(f"--only: {name} has no data set {absent[0]!r}; its data sets are {sets}")
    options = {name: value for name, value in asked.items() if value is not None}
    parts = {
        (name, data): data in own.evidence for name, own in known.items() if not own.last for data in own.sets or [ALL]
    }
    for name in names:
        own = known[name]
        print(f"\n## {name}\n{own.module.__doc__}")
        taken = inspect.signature(own.run).parameters
        if asked["quick"] and "quick" not in taken and not whole:
            continue  # it has no miniature
        told = {option: value for option, value in options.items() if option in taken}
        timed = not own.last and not told.keys() - {"workers", "only", "published", "kept"}
        # what is timed runs one data set after the other, so that a table can be made in several sessions
        sets = told.pop("only", own.sets if whole else own.evidence) if timed and own.sets else [ALL]
        for data in sets:
            begin = time.perf_counter()
            own.run(**told, **({} if data == ALL else {"only": [data]}))
            if timed and SHARED.is_dir():  # else what is not run takes no time
                keep_minutes(name, data, time.perf_counter() - begin, parts)
