"""Streams fed in parts: each method, tables with groups, counts and numbers; interrupted, and resumed from a file."""

from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

import bayescore as bc
from bayescore.coresets.multilevel import Multilevel
from tests.golden import pupils, rows
from tests.golden.case import Case, Fields, case
from tests.golden.coresets import made
from tests.golden.recorded import compared

PARTS = 7
ROWS = 500
"""Rows that a multilevel stream condenses at a time, where all would be one block."""
ARRAYS: dict[str, dict[str, Any]] = {
    "merge_reduce": {"size": 32, "leaf_rows": 400},
    "merge_reduce, condensed": {"size": 40, "leaf_rows": 500, "reducer": "condensed"},
    "merge_reduce, sensitivity": {"size": 32, "leaf_rows": 400, "reducer": "sensitivity"},
    "merge_reduce, leverage": {"size": 32, "leaf_rows": 400, "reducer": "leverage"},
    "merge_reduce, probit": {"size": 32, "leaf_rows": 400, "family": "probit"},
    "online": {"size": 32},
    "online, probit": {"size": 40, "family": "probit"},
}
TABLES: dict[str, dict[str, Any]] = {
    "merge_reduce, formula": {"formula": pupils.FLAT, "size": 40, "leaf_rows": 300, "weights": "w", "offset": "known"},
    "online, formula": {"formula": pupils.FLAT, "method": "online", "size": 40, "positive": "no"},
    "merge_reduce, counts": {
        "formula": pupils.COUNTS,
        "family": "poisson",
        "exposure": "weeks",
        "size": 60,
        "leaf_rows": 500,
    },
    "multilevel": {"formula": pupils.GROUPED},
    "multilevel, slopes, probit": {"formula": "passed ~ hours + (1 + hours | region)", "family": "probit"},
    "multilevel, crossed": {"formula": "passed ~ hours + (1 | school) + (1 | way)", "weights": "w"},
    "multilevel, counts": {"formula": "days ~ hours + (1 | school)", "family": "poisson", "exposure": "weeks"},
    "aggregate, numbers": {"formula": pupils.NUMBERS, "family": "normal"},
}


def empty(name: str, random_state: int = 3) -> Any:
    """Return an empty stream."""
    if name in TABLES:
        return bc.stream(**TABLES[name], random_state=random_state)
    return bc.stream(name.partition(",")[0], intercept=True, random_state=random_state, **ARRAYS[name])


def blocks(name: str) -> list[tuple[Any, ...]]:
    """Return the rows of a stream in parts, as `partial_fit` takes them."""
    if name in TABLES:
        return [(part,) for part in np.array_split(np.arange(pupils.N), PARTS)]
    parts = np.array_split(np.arange(rows.N), PARTS)
    weights = rows.FRAME["w"].to_numpy()
    return [(rows.X[part], rows.Y[part], weights[part]) for part in parts]


def fed(stream: Any, some: list[tuple[Any, ...]]) -> Any:
    """Return a stream after some more parts."""
    for part in some:
        if len(part) == 1:
            stream.partial_fit(pupils.ALL.iloc[part[0]])
        else:
            stream.partial_fit(*part)
    return stream


def through_a_file(stream: Any) -> Any:
    """Return the stream that is read from a checkpoint of another."""
    with TemporaryDirectory() as folder:
        stream.save(Path(folder) / "stream.ckpt")
        return bc.read_stream(Path(folder) / "stream.ckpt")


def whole(name: str, random_state: int) -> Any:
    """Return the coreset of a stream that nothing interrupts."""
    return fed(empty(name, random_state), blocks(name)).coreset()


def resumed(name: str, random_state: int) -> Any:
    """Return the coreset of a stream that was interrupted twice, and asked for a coreset in between."""
    some = blocks(name)
    stream = through_a_file(fed(empty(name, random_state), some[:2]))
    stream.coreset()
    stream = through_a_file(fed(stream, some[2:5]))
    return fed(stream, some[5:]).coreset()


def of_stream(make: Any, name: str) -> Fields:
    """Return what is seen of a stream's coreset, of multilevel ones condensed in blocks of `ROWS`."""
    with patch.object(Multilevel, "stream_block", lambda *_: ROWS):
        return made(partial(make, name))


@cache
def of_whole(name: str) -> Fields:
    """Return what is seen of the coreset of a stream that nothing interrupts."""
    return of_stream(whole, name)


def against_the_whole(make: Any, name: str) -> Fields:
    """Return weights of a stream's coreset, and what is not, to the last bit, as that of the uninterrupted one."""
    known, found = dict(of_whole(name)), dict(of_stream(make, name))
    del known["warnings"], found["warnings"]  # given at each coreset
    same = Case("streams", name, dict, tolerance=0.0)
    return {"weights": found["weights"], "unlike the uninterrupted": compared(same, found, known)}


for _name in (*ARRAYS, *TABLES):
    case(f"{_name}, in parts")(partial(of_whole, _name))
    case(f"{_name}, resumed")(partial(against_the_whole, resumed, _name))


@case("merge_reduce, after 2 parts of 7")
def of_few_parts() -> Fields:
    return made(lambda random_state: fed(empty("merge_reduce", random_state), blocks("merge_reduce")[:2]).coreset())


@case("multilevel, of a design that is known")
def of_design() -> Fields:
    known = bc.build_coreset(pupils.FIRST, formula=pupils.GROUPED, random_state=1, progressbar=False).design

    def make(random_state: int) -> Any:
        return bc.stream(design=known, random_state=random_state).partial_fit(_later()).coreset()

    return made(make)


def _later() -> pd.DataFrame:
    """Return rows of schools of which one is new."""
    return pupils.MORE.assign(school=pupils.MORE["school"].replace("s03", "new"))
