"""Benchmarks: one file a question, each a command that prints a table and writes it to ``results/``."""
