"""The data of the reference posteriors: an intercept and standardised columns, labels +1 where `y` is 1.

Eight published sets, read from ../shared/data or, small ones, from tests/published, and the weighted rows that the
samplers are tested on.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.types import WeightedData
from tests.samplers.problems import problem

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "data"
TREE = Path(__file__).resolve().parents[3] / "tests" / "published"  # small ones


def _plain(path: Path) -> pd.DataFrame:
    frame = pd.read_parquet(path)
    return frame.loc[:, frame.nunique() > 1]


def _vaso(path: Path) -> pd.DataFrame:
    facts = json.loads(path.read_text())
    return pd.DataFrame(
        {"log volume": np.log(facts["volume"]), "log rate": np.log(facts["rate"]), "y": facts["constricted"]}
    )


def _beetles(path: Path) -> pd.DataFrame:
    facts = json.loads(path.read_text())
    killed, treated = np.array(facts["killed"]), np.array(facts["treated"])
    counts = np.concatenate([killed, treated - killed])
    frame = pd.DataFrame({"dose": np.tile(facts["dose"], 2), "y": np.repeat([1, 0], len(killed)), "weight": counts})
    return frame[frame["weight"] > 0]


def _dogs(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path)[["n_avoid", "n_shock", "y"]]  # of 31 dogs: posteriordb has since left out the first


def _contraception(path: Path) -> pd.DataFrame:
    frame = pd.read_parquet(path)
    children = {f"livch {level}": (frame["livch"] == level).astype(float) for level in ("1", "2", "3+")}
    own = {"age": frame["age"], "age^2": frame["age"] ** 2, "urban": (frame["urban"] == "Y").astype(float)}
    return pd.DataFrame({**own, **children, "y": frame["use"]})


@dataclass(frozen=True)
class Published:
    """A file and the columns made of it: `y`, and `weight` where rows are counted."""

    path: Path
    columns: Callable[[Path], pd.DataFrame] = _plain

    @property
    def sha256(self) -> str:
        """The file's digest."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    def table(self) -> tuple[pd.DataFrame, np.ndarray, np.ndarray | None]:
        """Return columns, labels and weights, as `all_rows` takes them."""
        frame = self.columns(self.path)
        weights = frame["weight"].to_numpy(dtype=float) if "weight" in frame else None
        return (
            frame.drop(columns=["y", "weight"], errors="ignore").astype(float),
            np.where(frame["y"] == 1, 1, -1),
            weights,
        )

    def rows(self, family: str) -> bc.Coreset:
        """Return all rows, identical ones merged into one of their weight, which no posterior notices."""
        X, y, weights = self.table()
        return bc.build_coreset(X, y, weights=weights, method="aggregate", family=family, **SETTINGS)


SETTINGS = {"intercept": True, "standardize": True, "progressbar": False}
DATA = {
    "vaso": Published(TREE / "vaso.json", _vaso),
    "beetles": Published(TREE / "beetles.json", _beetles),
    "nes": Published(SHARED / "posteriordb_nes_logit.parquet"),
    "wells": Published(SHARED / "posteriordb_wells.parquet"),
    "contraception": Published(SHARED / "contraception.parquet", _contraception),
    "german_credit": Published(SHARED / "german_credit_numeric.parquet"),
    "chemreact": Published(SHARED / "chemreact_ds1_10.parquet"),
    "dogs": Published(SHARED / "posteriordb_dogs_2020.parquet", _dogs),
}
WEIGHTED = {"weighted_rows_50": 0.5, "weighted_rows_3": 0.03}  # share of the positive label


def rows_of(name: str, family: str) -> WeightedData:
    """Return the rows of one of `DATA` or `WEIGHTED`."""
    return problem(family, WEIGHTED[name]) if name in WEIGHTED else DATA[name].rows(family)
