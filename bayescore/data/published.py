"""Published data sets for logistic regression on coresets: CovType, ChemReact, Webspam.

    CovType    581,012 x 54    trees on a map            48.8% positive (cover type 2)
    ChemReact   26,733 x 100   screened chemicals         3.0% positive
    Webspam    350,000 x 127   byte counts of web pages   about 60% positive

Source: Huggins, Campbell and Broderick (2016), section 4 and Table 1. Use them to compare with published
results; each is downloaded once and then read from the cache, or read from a file given by `path`.

Published data sets: facts of each, and downloads by pooch.

No publisher states a checksum. The first download is checked against the published numbers of rows, columns and
positives; its sha256 is then stored beside it, and every later load compares.
"""

import http.client
import lzma
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pooch
from numpy.typing import NDArray
from sklearn.datasets import fetch_covtype, get_data_home, load_svmlight_file

from bayescore.files import check_path
from bayescore.text import first_line
from bayescore.types import FloatArray, LabelArray, read_only
from bayescore.validation import DataError

TIMEOUT = 60.0  # seconds without an answer


class DownloadError(OSError):
    """A data set could not be fetched; the message says from where to where."""


@dataclass(frozen=True)
class DataSet:
    """What has been published about a data set."""

    name: str
    about: str
    address: str
    feature_names: tuple[str, ...]
    n_rows: int
    n_positive: tuple[int, int]  # least and greatest numbers that agree with what is published
    label: str
    positive: int  # becomes +1
    negative: tuple[int, ...]  # become -1; other labels are refused


COVTYPE = DataSet(
    name="CovType",
    about="Forest cover type of 30 m x 30 m cells from cartographic variables; +1 is lodgepole pine (type 2).",
    address="https://archive.ics.uci.edu/ml/machine-learning-databases/covtype/covtype.data.gz",
    feature_names=(
        "Elevation",
        "Aspect",
        "Slope",
        "Horizontal_Distance_To_Hydrology",
        "Vertical_Distance_To_Hydrology",
        "Horizontal_Distance_To_Roadways",
        "Hillshade_9am",
        "Hillshade_Noon",
        "Hillshade_3pm",
        "Horizontal_Distance_To_Fire_Points",
        *(f"Wilderness_Area_{i}" for i in range(4)),
        *(f"Soil_Type_{i}" for i in range(40)),
    ),
    n_rows=581_012,
    n_positive=(283_301, 283_301),
    label="cover_type",
    positive=2,
    negative=(1, 3, 4, 5, 6, 7),
)


CHEMREACT = DataSet(
    name="ChemReact",
    about="ds1.100: chemicals by 100 principal components of their properties; +1 is reactive.",
    address="http://komarix.org/ac/ds/ds1.100.csv.bz2",
    feature_names=tuple(f"x{d}" for d in range(1, 101)),
    n_rows=26_733,
    n_positive=(804, 804),
    label="y",
    positive=1,
    negative=(-1, 0),
)


WEBSPAM = DataSet(
    name="Webspam",
    about="Web pages by their normalised byte counts; +1 is spam.",
    address="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/webspam_wc_normalized_unigram.svm.xz",
    feature_names=tuple(f"x{d}" for d in range(1, 255)),
    n_rows=350_000,
    n_positive=(206_500, 217_000),  # the source says "approximately 60%"
    label="y",
    positive=1,
    negative=(-1,),
)


@contextmanager
def cached(dataset: DataSet, data_home: str | Path | None) -> Iterator[Path]:
    """Lend the file of `dataset` from `bayescore` in scikit-learn's data folder, downloading it if needed.

    The body reads and checks it. If it raises a `DataError`, a new download is deleted; otherwise its checksum is
    stored. A file that has changed since is downloaded again.
    """
    file = Path(get_data_home(data_home)) / "bayescore" / dataset.address.rsplit("/", 1)[-1]
    record = file.with_name(file.name + ".sha256")
    saved = record.read_text().split(" ")[0] if record.exists() else None
    fresh = not file.exists()
    pooch.get_logger().setLevel("WARNING")
    try:
        pooch.retrieve(dataset.address, saved, file.name, file.parent, downloader=pooch.HTTPDownloader(timeout=TIMEOUT))
    except OSError as error:
        raise DownloadError(
            f"{dataset.name} could not be downloaded ({first_line(error)}); fetch {dataset.address} elsewhere "
            f"and put it at {file}, or give path="
        ) from error
    except ValueError as error:
        raise DataError(
            f"{dataset.address} is not the file of its first use (sha256 {saved} recorded); delete {record} if the new "
            "one can be trusted, to download it again"
        ) from error
    try:
        yield file
    except DataError:
        if fresh:
            file.unlink()
        raise
    if saved is None:
        record.write_text(f"{pooch.file_hash(str(file))}  {file.name}\n")


def check_published(dataset: DataSet, labels: NDArray[np.float64], origin: str, *, complete: bool) -> NDArray[np.bool_]:
    """Return which rows are positive; raise for an unknown label, one class, or rows that differ from those published.

    Numbers of rows and positives are compared if the data should be `complete`.
    """
    has_class = np.isin(labels, (dataset.positive, *dataset.negative))
    if not has_class.all():
        row = int(np.argmin(has_class))
        expected = ", ".join(str(label) for label in (dataset.positive, *dataset.negative))
        raise DataError(f"{origin}: label {labels[row]:g} in row {row}; {dataset.name} has {expected}")
    positive: NDArray[np.bool_] = labels == dataset.positive
    if positive.all() or not positive.any():
        raise DataError(f"{origin} has one class only; {dataset.name} needs both")
    if complete and len(labels) != dataset.n_rows:
        raise DataError(f"{origin} has {len(labels):,} rows, {dataset.name} as published has {dataset.n_rows:,}")
    n_positive, (low, high) = int(positive.sum()), dataset.n_positive
    if complete and not low <= n_positive <= high:
        published = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        raise DataError(f"{origin} has {n_positive:,} positive rows, {dataset.name} as published has {published}")
    return positive


MIN_PAGES = 25


# What the parsers raise on files that are cut off, damaged or of another kind.
UNREADABLE = (OSError, ValueError, TypeError, KeyError, EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)


class RealData(NamedTuple):
    """A published data set; its arrays are read-only."""

    X: FloatArray
    """Features, shape (n, D)."""
    y: LabelArray
    """Labels, -1 or +1, shape (n,)."""
    feature_names: tuple[str, ...]
    """Names of the D features."""
    description: str
    """What it is, how much of it this is, and where it was read from."""


class _PublishedTable(NamedTuple):
    X: FloatArray
    labels: FloatArray
    feature_names: tuple[str, ...]


Reader = Callable[[Path, DataSet], _PublishedTable]


def _read_table(file: Path, dataset: DataSet) -> _PublishedTable:
    """Read CSV, Parquet or npz: the features first, the label in the column of that name or the last."""
    n_features = len(dataset.feature_names)
    if file.suffix == ".npz":
        with np.load(file) as arrays:
            X, labels = arrays["X"].astype(np.float64), arrays["y"].astype(np.float64)
        return _PublishedTable(X, labels.ravel(), dataset.feature_names)
    if file.suffix == ".parquet":
        frame, named = pd.read_parquet(file), True
    else:
        first = pd.read_csv(file, header=None, nrows=1)
        named = any(kind.kind not in "fiu" for kind in first.dtypes)
        frame = pd.read_csv(file, header=0 if named else None)
    columns = [str(column) for column in frame.columns]
    matches = [i for i, column in enumerate(columns) if named and column.lower() == dataset.label]
    at = matches[0] if matches else len(columns) - 1
    if at < n_features or (not matches and at != n_features):
        raise ValueError(f"{len(columns)} columns, label in column {at + 1}; {n_features} features must stand first")
    body = frame.iloc[:, :n_features].to_numpy(dtype=np.float64)
    names = tuple(columns[:n_features]) if named else dataset.feature_names
    return _PublishedTable(body, frame.iloc[:, at].to_numpy(dtype=np.float64), names)


def _read_pages(file: Path, dataset: DataSet) -> _PublishedTable:
    """Read the LIBSVM format, plain or compressed (.xz, .gz, .bz2); keep features of 25 pages or more."""
    # load_svmlight_file opens the other formats by itself
    with lzma.open(file, "rb") if file.suffix == ".xz" else nullcontext(str(file)) as source:
        X, labels = load_svmlight_file(source, n_features=len(dataset.feature_names))
    X.eliminate_zeros()
    keep = np.flatnonzero(X.getnnz(axis=0) >= MIN_PAGES)
    if len(keep) == 0:
        raise ValueError(f"no feature appears in {MIN_PAGES} pages or more")
    return _PublishedTable(X[:, keep].toarray(), labels, tuple(dataset.feature_names[d] for d in keep))


def _finish(dataset: DataSet, table: _PublishedTable, origin: str, *, complete: bool) -> RealData:
    """Check labels and, if the set should be complete, the published numbers."""
    positive = check_published(dataset, table.labels, origin, complete=complete)
    n, n_positive = len(positive), int(positive.sum())
    part = "" if n == dataset.n_rows else f" of {dataset.n_rows:,} published"
    description = (
        f"{dataset.name}: {n:,} rows{part}, {table.X.shape[1]} features, {n_positive:,} positive "
        f"({n_positive / n:.1%}). {dataset.about} Read from {origin}."
    )
    y = np.where(positive, np.int8(1), np.int8(-1))
    return RealData(read_only(table.X), read_only(y), table.feature_names, description)


def _from_file(dataset: DataSet, read: Reader, file: Path, *, complete: bool) -> RealData:
    try:
        table = read(file, dataset)
    except UNREADABLE as error:
        raise DataError(f"{file} cannot be read as {dataset.name}: {first_line(error)}") from error
    if table.X.shape != (len(table.labels), len(table.feature_names)):
        raise DataError(
            f"{file}: features of shape {table.X.shape}, {len(table.labels)} labels; {dataset.name} has "
            f"{len(table.feature_names)} features and a label for each row"
        )
    return _finish(dataset, table, str(file), complete=complete)


def _load(dataset: DataSet, read: Reader, path: str | Path | None, data_home: str | Path | None) -> RealData:
    if path is None:
        with cached(dataset, data_home) as file:
            return _from_file(dataset, read, file, complete=True)
    file = check_path(path)
    if not file.is_file():
        raise FileNotFoundError(f"path={str(path)!r} is not a file; leave path out to download {dataset.name}")
    return _from_file(dataset, read, file, complete=False)


def load_covtype(path: str | Path | None = None, *, data_home: str | Path | None = None) -> RealData:
    """Load CovType: 581,012 rows, 54 features, +1 for cover type 2 (283,301 rows, 48.8%).

    Type 2 against the rest is the split of LIBSVM's covtype.binary. Huggins et al. report 51% positive: they
    have the same split with the signs exchanged, which changes no more than the sign of theta.

    Parameters
    ----------
    path : path-like, optional
        A file to read instead of downloading: CSV, also compressed (the UCI file as it is), Parquet, or npz
        with arrays X and y. The 54 features stand first; the cover type, 1 to 7, is the column `cover_type`
        or the last one. It may be a part of the rows: `description` says how many.
    data_home : path-like, optional
        scikit-learn's data folder; see `sklearn.datasets.fetch_covtype`, which downloads, checks and caches.

    Returns
    -------
    RealData
        X (n, 54), y (n,), feature_names, description.

    Raises
    ------
    DownloadError
        If the data are not in the cache and cannot be downloaded.
    FileNotFoundError
        If `path` is not a file.
    DataError
        If the file cannot be read, or is not CovType.

    References
    ----------
    Blackard and Dean (1998), UCI Machine Learning Repository, https://doi.org/10.24432/C50K5N.

    Examples
    --------
    >>> import bayescore as bc
    >>> core = bc.build_coreset(*bc.datasets.load_covtype()[:2], intercept=True)  # doctest: +SKIP
    """
    if path is not None:
        return _load(COVTYPE, _read_table, path, data_home)
    try:
        # "Retry downloading": the error below says it all
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            fetched = fetch_covtype(data_home=data_home, n_retries=1)
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(
            f"CovType could not be downloaded ({first_line(error)}); fetch {COVTYPE.address} elsewhere and give path="
        ) from error
    table = _PublishedTable(fetched.data, fetched.target.astype(np.float64), tuple(fetched.feature_names))
    return _finish(COVTYPE, table, "scikit-learn's fetch_covtype", complete=True)


def load_chemreact(path: str | Path | None = None, *, data_home: str | Path | None = None) -> RealData:
    """Load ChemReact (ds1.100): 26,733 rows, 100 features, 804 positive (3.0%).

    The publisher states no checksum. The first download is accepted if it has the published numbers of
    rows, columns and positives; its sha256 is then kept next to it, and every later load compares.

    Parameters
    ----------
    path : path-like, optional
        A file to read instead of downloading: CSV, also compressed, Parquet, or npz with arrays X and y. The
        100 features stand first; the label, 1 against 0 or -1, is the column `y` or the last one. It may be a
        part of the rows: `description` says how many.
    data_home : path-like, optional
        Folder that holds the cache folder `bayescore`; see `sklearn.datasets.get_data_home`.

    Returns
    -------
    RealData
        X (n, 100), y (n,), feature_names, description.

    Raises
    ------
    DownloadError
        If the file is not in the cache and cannot be downloaded.
    FileNotFoundError
        If `path` is not a file.
    DataError
        If the file cannot be read, is not ChemReact, or is not the one of the first use.

    References
    ----------
    Komarek (2004), AutonLab data, http://komarix.org/ac/ds/.

    Examples
    --------
    >>> import bayescore as bc
    >>> core = bc.build_coreset(*bc.datasets.load_chemreact()[:2], intercept=True)  # doctest: +SKIP
    """
    return _load(CHEMREACT, _read_table, path, data_home)


def load_webspam(path: str | Path | None = None, *, data_home: str | Path | None = None) -> RealData:
    """Load Webspam (unigrams): 350,000 rows, about 60% positive, features of at least 25 pages.

    Huggins et al. count 127 features by this rule; the 254 of LIBSVM's file are cut by the same rule, and
    `feature_names` says which remain. The publisher states no checksum: the first download is accepted if it
    has 350,000 rows, no feature beyond 254 and 59% to 62% positives; its sha256 is then kept next to it, and
    every later load compares. Reading takes about half a minute and 1.5 GB of memory.

    Parameters
    ----------
    path : path-like, optional
        A file in the LIBSVM format to read instead of downloading; .xz, .gz or .bz2 if compressed. It may be
        a part of the rows: `description` says how many.
    data_home : path-like, optional
        Folder that holds the cache folder `bayescore`; see `sklearn.datasets.get_data_home`.

    Returns
    -------
    RealData
        X (n, D), y (n,), feature_names, description.

    Raises
    ------
    DownloadError
        If the file is not in the cache and cannot be downloaded.
    FileNotFoundError
        If `path` is not a file.
    DataError
        If the file cannot be read, is not Webspam, or is not the one of the first use.

    References
    ----------
    Webb, Caverlee and Pu (2006), Webb spam corpus; LIBSVM data,
    https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html.

    Examples
    --------
    >>> import bayescore as bc
    >>> core = bc.build_coreset(*bc.datasets.load_webspam()[:2], intercept=True)  # doctest: +SKIP
    """
    return _load(WEBSPAM, _read_pages, path, data_home)
