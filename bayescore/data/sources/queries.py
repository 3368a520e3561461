"""Queries as sources: a polars LazyFrame, a DuckDB relation. Each pass runs the query anew, for the columns it needs.

No more than a few batches are in memory. A query that computes much is better run once, into a table or a Parquet
file: a coreset takes some seven passes, and files are read in several threads.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from bayescore.data.factors import Selection
from bayescore.data.passes.cutter import MAX_BLOCK_ROWS
from bayescore.data.sources.batches import BatchSource, batch_source, is_instance
from bayescore.data.sources.roles import Roles
from bayescore.data.tables import as_table


def is_lazy(data: Any) -> bool:
    """Whether `data` is a LazyFrame of polars."""
    return is_instance(data, "polars", "LazyFrame")


def lazy_source(data: Any, roles: Roles, selection: Selection | None = None) -> BatchSource:
    """Return a LazyFrame as a source; labels and weights are columns of it.

    Raises
    ------
    DataError
        If the columns or labels cannot be used.
    TypeError
        If the installed polars gives no batches of a query.
    """
    roles.check_named("a LazyFrame")
    if not hasattr(data, "collect_batches"):
        raise TypeError("data is a LazyFrame, and this polars cannot read one in batches; install polars>=1.34")

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        for frame in data.select(columns).collect_batches(chunk_size=MAX_BLOCK_ROWS, maintain_order=True):
            yield from as_table(frame).combine_chunks().to_batches()

    return batch_source(read, as_table(data.limit(0).collect()).schema, roles, selection)


def is_relation(data: Any) -> bool:
    """Whether `data` is a relation of DuckDB."""
    return is_instance(data, "duckdb", "DuckDBPyRelation")


def relation_source(data: Any, roles: Roles, selection: Selection | None = None) -> BatchSource:
    """Return a relation of DuckDB as a source; labels and weights are columns of it.

    Its connection runs one query at a time: leave it alone until the coreset is built.

    Raises
    ------
    DataError
        If the columns or labels cannot be used.
    """
    roles.check_named("a relation of DuckDB")

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        query = data.project(quoted)
        # `__arrow_c_stream__` would hold the whole result; DuckDB 1 calls the reader by its second name
        with (getattr(query, "to_arrow_reader", None) or query.fetch_record_batch)(MAX_BLOCK_ROWS) as reader:
            yield from reader

    return batch_source(read, pa.table(data.limit(0)).schema, roles, selection)
