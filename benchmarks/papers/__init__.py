"""The figures, tables and theorems of the three papers, run again: `benchmarks/PAPERS.md` says what came of each."""
