"""Record the golden cases anew: ``python -m tests.golden``, which prints what moved.

With names of families, ``python -m tests.golden pages fitted``, these alone are made and recorded.

Do so only where a change of numbers or words is meant, look at what it prints and at the difference of the files, and
say so in the changelog. What moved by rounding alone stays as it was. Cases that depend on the stack (PyMC and ArviZ)
are recorded for the one that is installed.
"""

from argparse import ArgumentParser

from tests.golden.case import FAMILIES, Fields, all_cases
from tests.golden.recorded import compared, kept, load, save


def main() -> None:
    """Write the files of families, by default of all, and print what moved."""
    parser = ArgumentParser(prog="python -m tests.golden", description="Record golden cases, and print what moved.")
    parser.add_argument("families", nargs="*", metavar="family", help=f"one of {', '.join(FAMILIES)}; default all")
    asked = parser.parse_args().families or FAMILIES
    if unknown := set(asked) - set(FAMILIES):
        parser.error(f"{min(unknown)!r} is no family; there are {', '.join(FAMILIES)}")
    cases = [case for case in all_cases().values() if case.family in asked]
    known = {file: load(file) for file in {case.file for case in cases}}
    found: dict[str, dict[str, Fields]] = {file: {} for file in known}
    for case in cases:
        fields, old = case.fields(), known[case.file].get(case.name)
        moved = [f"{case.family}: {case.name}: new"] if old is None else compared(case, fields, old)
        for line in moved:
            print(line, flush=True)
        # what moved by rounding alone stays as it is recorded
        found[case.file][case.name] = {field: kept(value) for field, value in fields.items()} if moved else old
    for file, own in found.items():
        save(file, own)


if __name__ == "__main__":
    main()
