"""Clusterings of signed rows: seeding, and the exact means, sizes and cost of a given clustering."""
