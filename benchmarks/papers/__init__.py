"""The three papers, run again: which figures, tables and theorems come out? `benchmarks/PAPERS.md` has each."""
