"""Reads the Parquet file that `Coreset.to_parquet` writes, and checks that it is unchanged."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayescore.data.coreset import INDEX_KEY, READABLE, SHORTFALL_KEY, Coreset, Shortfall
from bayescore.data.design import Design
from bayescore.data.formula_design import read_design
from bayescore.data.groups import Grouper
from bayescore.data.parquet import CORESET_KEY, LONGEST_TEXT
from bayescore.data.responses import response_of, signed_labels
from bayescore.files import check_path
from bayescore.types import NO_ROW, IntArray
from bayescore.validation import DataError, json_object


def read_coreset(path: str | Path) -> Coreset:
    """Read a coreset that `Coreset.to_parquet` wrote.

    Parameters
    ----------
    path : str or Path
        A Parquet file.

    Returns
    -------
    Coreset

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    TypeError
        If `path` is no name of a file.
    DataError
        If the file is no coreset, is damaged, or was changed since.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np, bayescore as bc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> y = X[:, 0] + rng.logistic(size=5000) > 0
    >>> core = bc.build_coreset(X, y, method="calibrated", size=100, random_state=1, progressbar=False)
    >>> path = Path(tempfile.mkdtemp()) / "core.parquet"
    >>> core.to_parquet(path)
    >>> bc.read_coreset(path).n_total
    5000
    """
    source = check_path(path)
    if not source.is_file():
        raise FileNotFoundError(f"path={str(source)!r}: no such file")
    try:
        table = pq.read_table(source, thrift_string_size_limit=LONGEST_TEXT)
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise DataError(f"{str(source)!r} is not a readable Parquet file ({reason}); build the coreset again") from None
    metadata = table.schema.metadata or {}
    if CORESET_KEY not in metadata:
        raise DataError(
            f"{str(source)!r} is a Parquet file but no coreset of bayescore; read your own weighted rows with "
            "all_rows(path, label=..., weights=...)"
        )
    about = json_object(metadata[CORESET_KEY], f"{str(source)!r} has damaged metadata; build the coreset again")
    if about.get("format") not in READABLE:
        known = " and ".join(map(str, READABLE))
        raise DataError(f"{str(source)!r} has coreset format {about.get('format')}; this version reads {known}")
    changed = DataError(
        f"{str(source)!r} was changed after bayescore wrote it, or is damaged; build it again, or read your own "
        "weighted rows with all_rows(path, label=..., weights=...)"
    )
    try:
        frame = table.to_pandas()
        classes = (about["classes"][0], about["classes"][1])
        index = np.frombuffer(metadata[INDEX_KEY], dtype="<i8").astype(np.int64)
        design = replace(read_design(about["design"]), roles=tuple(about.get("roles", {}).items()))
        numbers_given = response_of(classes) == "numbers"
        has_offset = not numbers_given and (design.offset is not None or (index == NO_ROW).any())
        labels = frame[about["label"]].to_numpy()
        offset = frame["offset"].to_numpy(dtype=np.float64) if has_offset else -labels if numbers_given else None
        numbers = None if SHORTFALL_KEY not in metadata else np.frombuffer(metadata[SHORTFALL_KEY], dtype="<f8")
        kept = {field.name: about[field.name] for field in fields(Coreset) if field.name in about}
        core = Coreset(
            np.ascontiguousarray(frame[about["feature_names"]].to_numpy(dtype=np.float64)),
            np.ones(len(labels), dtype=np.int8) if numbers_given else signed_labels(labels, classes, 0),
            frame["weight"].to_numpy(dtype=np.float64),
            index,
            **{**kept, "design": design, "classes": classes},
            offset=offset,
            group=_group_codes(table, design),
            shortfall=None if numbers is None else Shortfall.from_array(numbers, len(about["feature_names"])),
        )
        n_own = (3 if has_offset else 2) + len(core.groups)
        whole = table.num_columns == core.n_features + n_own and core.file_digest == about["sha256"]
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, pa.ArrowException):  # facts or columns
        raise changed from None
    if not whole:
        raise changed
    return core


def _group_codes(table: pa.Table, design: Design) -> IntArray | None:
    """Return the codes of the groups, shape (n, F); pandas would read whole numbers beside missing ones as floats."""
    if not design.groups:
        return None
    known = [Grouper(own, new=True) for own in design.groups]
    columns = [table.column(by.grouping.name).cast(by.table.type).combine_chunks() for by in known]
    return np.stack([by.places(column) for by, column in zip(known, columns, strict=True)], axis=1)
