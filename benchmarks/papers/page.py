"""Write PAPERS.md, the three papers item by item, from the CSVs in results/ and the templates beside this file."""

from benchmarks.commands import command
from benchmarks.tables import RESULTS
from benchmarks.write_results import render

TEMPLATE = "papers/PAPERS.md.j2"
PAGE = RESULTS.parent / "PAPERS.md"


@command("papers", evidence=True, last=True)
def main() -> None:
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(render(TEMPLATE), encoding="utf-8")
    print(f"wrote {PAGE}")
