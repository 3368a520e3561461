"""Published data sets: what is known of each, and downloads by pooch.

No publisher states a checksum. The first download is checked against the published numbers of rows, columns and
positives; its sha256 is then stored beside it, and every later load compares.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pooch
from numpy.typing import NDArray
from sklearn.datasets import get_data_home

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


def one_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its class if there is none."""
    return (str(error).splitlines() or [type(error).__name__])[0]


@contextmanager
def cached(dataset: DataSet, data_home: str | Path | None) -> Iterator[Path]:
    """Lend the file of `dataset` from `bayescore` in scikit-learn's data folder, downloading it if needed.

    The body reads and checks it. If it raises a `DataError`, a new download is deleted; otherwise its checksum is
    stored. A file that has changed since is downloaded again.
    """
    file = Path(get_data_home(data_home)) / "bayescore" / dataset.address.rsplit("/", 1)[-1]
    record = file.with_name(file.name + ".sha256")
    known = record.read_text().split(" ")[0] if record.exists() else None
    fresh = not file.exists()
    pooch.get_logger().setLevel("WARNING")
    try:
        pooch.retrieve(dataset.address, known, file.name, file.parent, downloader=pooch.HTTPDownloader(timeout=TIMEOUT))
    except OSError as error:
        raise DownloadError(
            f"{dataset.name} could not be downloaded ({one_line(error)}); fetch {dataset.address} elsewhere "
            f"and put it at {file}, or give path="
        ) from error
    except ValueError as error:
        raise DataError(
            f"{dataset.address} is not the file of its first use (sha256 {known} recorded); delete {record} if the new "
            "one can be trusted, to download it again"
        ) from error
    try:
        yield file
    except DataError:
        if fresh:
            file.unlink()
        raise
    if known is None:
        record.write_text(f"{pooch.file_hash(str(file))}  {file.name}\n")


def check_published(dataset: DataSet, labels: NDArray[np.float64], origin: str, *, complete: bool) -> NDArray[np.bool_]:
    """Return which rows are positive; raise for an unknown label, one class, or rows that differ from those published.

    Numbers of rows and positives are compared if the data should be `complete`.
    """
    known = np.isin(labels, (dataset.positive, *dataset.negative))
    if not known.all():
        row = int(np.argmin(known))
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
