"""One fit of rows that come in many ways: as a frame, files, a folder, a Dask frame, of other libraries, in blocks."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import bayescore as bc
from tests.golden import pupils, view_fits
from tests.golden.case import Case, Fields, case
from tests.golden.recorded import compared

FITS: dict[str, tuple[str, dict[str, Any]]] = {
    "factor, weights, offset": (pupils.FLAT, {"weights": "w", "offset": "known"}),
    "(1 | school)": (pupils.GROUPED, {}),
}
OF_FITS: dict[str, Any] = {"of_stack": True, "tolerance": view_fits.DIFFERENCES}
COLUMNS = ["hours", "way", "school", "w", "known", "passed"]


def _frame(frame: pd.DataFrame, folder: Path) -> Any:
    return frame


def _csv(frame: pd.DataFrame, folder: Path) -> Any:
    frame.to_csv(folder / "pupils.csv", index=False)
    return folder / "pupils.csv"


def _parquet(frame: pd.DataFrame, folder: Path) -> Any:
    frame.to_parquet(folder / "pupils.parquet", row_group_size=250)
    return folder / "pupils.parquet"


def parquet_folder(frame: pd.DataFrame, folder: Path) -> Any:
    """Write the rows to a folder of three files, and return it."""
    (folder / "pupils").mkdir()
    for place, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
        frame.iloc[part].to_parquet(folder / "pupils" / f"{place}.parquet", index=False)
    return folder / "pupils"


def _dask(frame: pd.DataFrame, folder: Path) -> Any:
    import dask.dataframe as dd

    return dd.from_pandas(frame, npartitions=4)


def _polars(frame: pd.DataFrame, folder: Path) -> Any:
    import polars

    return polars.from_pandas(frame)


def _arrow(frame: pd.DataFrame, folder: Path) -> Any:
    return pa.Table.from_pandas(frame, preserve_index=False)


SOURCES: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "frame": _frame,
    "CSV": _csv,
    "Parquet": _parquet,
    "folder of Parquet": parquet_folder,
    "Dask": _dask,
    "polars": _polars,
    "arrow": _arrow,
}


def fit_of(source: str, name: str, frame: pd.DataFrame = pupils.FIRST) -> Any:
    """Return the fit of rows of a source."""
    formula, roles = FITS[name]
    with TemporaryDirectory() as folder:
        data = SOURCES[source](frame[COLUMNS], Path(folder))
        fit = bc.fit(formula, data, random_state=2, progressbar=False, **roles)
        shares = fit.average_predictions(by="way", max_draws=100)
    return fit, shares


def seen(source: str, name: str, frame: pd.DataFrame = pupils.FIRST) -> Fields:
    """Return what is seen of a fit, and of its average predictions, which read the rows again."""
    fit, shares = fit_of(source, name, frame)
    return {**view_fits.of_fit(fit), **view_fits.matrix(shares, "averages")}


@cache
def of_frame(name: str) -> Fields:
    """Return what is seen of the fit of a frame."""
    return seen("frame", name)


def against_the_frame(source: str, name: str, frame: pd.DataFrame = pupils.FIRST) -> Fields:
    """Return means and sds of a fit, and what of it is not as that of the frame, which is recorded whole."""
    fields = seen(source, name, frame)
    same = Case("sources", f"{name}, {source}", dict, tolerance=view_fits.DIFFERENCES)
    return {
        "means and sds": np.asarray(fields["summary"])[:, :2],
        "unlike the frame": compared(same, fields, of_frame(name)),
    }


for _name in FITS:
    case(f"{_name}, frame", **OF_FITS)(partial(of_frame, _name))
    for _source in SOURCES:
        if _source != "frame":
            case(f"{_name}, {_source}", **OF_FITS)(partial(against_the_frame, _source, _name))


# --- arrays, and blocks of them ---------------------------------------------------------------------------------------

X, Y = pupils.FIRST[["hours", "age"]].to_numpy(), pupils.FIRST["passed"].to_numpy().astype(str)


def _blocks() -> Any:
    return ((X[start : start + 250], Y[start : start + 250]) for start in range(0, len(X), 250))


@cache
def of_arrays() -> Fields:
    """Return what is seen of the fit of arrays."""
    return view_fits.of_fit(bc.fit(X, Y, random_state=2, progressbar=False))


case("arrays", **OF_FITS)(of_arrays)


@case("blocks that can be read again", **OF_FITS)
def of_callable() -> Fields:
    fields = view_fits.of_fit(bc.fit(_blocks, random_state=2, progressbar=False))
    same = Case("sources", "blocks", dict, tolerance=view_fits.DIFFERENCES)
    return {"means and sds": np.asarray(fields["summary"])[:, :2], "unlike arrays": compared(same, fields, of_arrays())}


@case("blocks that come once", **OF_FITS)
def of_iterator() -> Fields:
    return view_fits.of_fit(bc.fit(_blocks(), random_state=2, progressbar=False))


@case("frames in blocks, refused")
def of_refused() -> Fields:
    parts = [pupils.FIRST.iloc[:600], pupils.FIRST.iloc[600:]]
    said = []
    for data in (iter(parts), lambda: iter(parts), parts):
        try:
            bc.fit(pupils.FLAT, data, progressbar=False)
        except (TypeError, ValueError) as error:
            said.append(f"{type(error).__name__}: {error}")
    return {"said": said}
