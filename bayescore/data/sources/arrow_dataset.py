"""Arrow datasets as sources: files of any format on any file system of Arrow or fsspec, with their partition columns.

One of whole Parquet files, all of the same columns, is read by row groups as a folder is, in threads; others (filtered,
joined, CSV with another separator, ORC, Feather) are read in batches. Rows stand in the dataset's own order.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from bayescore.data.factors import Selection
from bayescore.data.passes.cutter import MAX_BLOCK_ROWS
from bayescore.data.source import Source
from bayescore.data.sources.batches import batch_source, is_instance
from bayescore.data.sources.parquet import parquet_source
from bayescore.data.sources.roles import Roles
from bayescore.data.sources.stores import Listing


def is_dataset(data: Any) -> bool:
    """Whether `data` is a dataset of Arrow."""
    return is_instance(data, "pyarrow.dataset", "Dataset")


def dataset_source(data: Any, roles: Roles, selection: Selection | None = None) -> Source:
    """Return a dataset of Arrow as a source; labels and weights are columns of it.

    Raises
    ------
    DataError
        If its files, columns or labels cannot be used.
    """
    roles.check_named("a dataset")
    listing = _listing(data)
    if listing is not None:
        return parquet_source(listing, roles, selection)

    def read(columns: list[str]) -> Iterator[pa.RecordBatch]:
        yield from data.to_batches(columns=columns, batch_size=MAX_BLOCK_ROWS)

    return batch_source(read, data.schema, roles, selection)


def _listing(data: Any) -> Listing | None:
    """Return the files of a dataset of whole Parquet files of the same columns; None for others."""
    from pyarrow.dataset import FileSystemDataset, ParquetFileFormat, get_partition_keys

    if not isinstance(data, FileSystemDataset) or not isinstance(data.format, ParquetFileFormat):
        return None
    try:
        fragments = list(data.get_fragments())
    except ValueError:  # it is filtered, or its columns are made of others
        return None
    if not fragments:
        return None
    stored = fragments[0].physical_schema
    beside = [name for name in data.schema.names if name not in stored.names]
    own = pa.schema([data.schema.field(name) for name in data.schema.names if name not in beside])
    whole = all(
        part.physical_schema.equals(stored) and part.num_row_groups == part.metadata.num_row_groups
        for part in fragments
    )
    if not whole or not stored.equals(own):
        return None
    keys = [get_partition_keys(part.partition_expression) for part in fragments]
    hive = {name: pa.array([each.get(name) for each in keys], data.schema.field(name).type) for name in beside}
    local = isinstance(data.filesystem, pafs.LocalFileSystem)
    paths = tuple(Path(part.path) if local else part.path for part in fragments)
    return Listing("the dataset", paths, hive, None if local else data.filesystem)
