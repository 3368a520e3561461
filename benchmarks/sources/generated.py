"""Rows that a counter makes: any row by its index, the same whatever the blocks, and none kept.

Each number is a hash of (seed, index, column): SplitMix64, the finalizer of a counter (Steele, Lea and Flood 2014,
"Fast splittable pseudorandom number generators", OOPSLA). Two columns nearly normal (sums of four uniform numbers), two
exponential, one lognormal, one chi-square of one degree of freedom, two of 0/1, of 3 in 10 and 1 in 1,000 rows; all
float32, so that Parquet keeps them as they are. Labels are logistic, some 3% positive. Groups are of unlike sizes: that
of place g/G has a share that falls as (g/G)^(-1/2), and effects are nearly normal with sd `SIGMA`.

`Generated` is a `bayescore.data.source.Source`, divisible as files are: threads make the rows that they map, or workers
of `pool` do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from bayescore.compiled import jit
from bayescore.data.design import Design, Grouping
from bayescore.data.source import Division, WorkerPool, block_rows
from bayescore.types import FloatArray, IntArray, LabelArray, WeightedData

NAMES = "normal1", "normal2", "waiting1", "waiting2", "price", "square", "often", "rare"
SLOPES = np.array([0.4, -0.3, 0.25, -0.2, 0.15, 0.1, 0.5, 1.0])
LEVELS = -4.2, -4.31  # of the linear predictor, without groups and with them: 3% of the rows are positive
SIGMA = 0.5
PIECE = 1 << 20  # rows that a thread or worker makes one after the other, as it reads a row group

_STEP, _MIX1, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_LOW, _HIGH = np.uint64(0xFFFF), np.uint64(0xFFFFFFFF)
_PER_ROW = np.uint64(8)  # hashes that a row may take
_EFFECTS = np.uint64(0x5851F42D4C957F2D)  # the stream of the groups' effects begins elsewhere


@jit
def _hash(seed: np.uint64, counter: np.uint64) -> np.uint64:
    word = seed + (counter + np.uint64(1)) * _STEP
    word = (word ^ (word >> np.uint64(30))) * _MIX1
    word = (word ^ (word >> np.uint64(27))) * _MIX2
    return word ^ (word >> np.uint64(31))


@jit
def _normal(word: np.uint64) -> float:
    """Return the sum of four uniform numbers of 16 bits, of mean 0 and variance 1."""
    total = (word & _LOW) + ((word >> np.uint64(16)) & _LOW) + ((word >> np.uint64(32)) & _LOW)
    total += word >> np.uint64(48)
    return (float(np.int64(total)) - 131070.0) * 2.6428955e-05  # sqrt(3) / 65536


@jit
def _low(word: np.uint64) -> float:
    """Return a number in (0, 1) from the lower half of the bits."""
    return (float(np.int64(word & _HIGH)) + 0.5) * 2.3283064365386963e-10  # 2^-32


@jit
def _high(word: np.uint64) -> float:
    """Return a number in (0, 1) from the upper half of the bits."""
    return (float(np.int64(word >> np.uint64(32))) + 0.5) * 2.3283064365386963e-10


@jit
def _fill(seed: np.uint64, start: int, n_groups: int, slopes: FloatArray, level: float, X: Any, y: Any, g: Any) -> None:
    """Fill in the rows from `start` on; `g` stays as it is without groups."""
    for n in range(len(y)):
        first = np.uint64(start + n) * _PER_ROW
        waits, price = _hash(seed, first + np.uint64(2)), _hash(seed, first + np.uint64(3))
        kinds, own = _hash(seed, first + np.uint64(5)), _hash(seed, first + np.uint64(6))
        square = _normal(_hash(seed, first + np.uint64(4)))
        X[n, 0] = np.float32(_normal(_hash(seed, first)))
        X[n, 1] = np.float32(_normal(_hash(seed, first + np.uint64(1))))
        X[n, 2] = -np.log(np.float32(_low(waits)))
        X[n, 3] = -np.log(np.float32(_high(waits)))
        X[n, 4] = np.exp(np.float32(0.8 * _normal(price)))
        X[n, 5] = np.float32(square * square)
        X[n, 6] = 1.0 if _low(kinds) < 0.3 else 0.0
        X[n, 7] = 1.0 if _high(kinds) < 1e-3 else 0.0
        eta = level
        for d in range(8):
            eta += X[n, d] * slopes[d]
        if n_groups > 0:
            share = _high(own)
            group = int(share * share * n_groups)
            g[n, 0] = group
            eta += SIGMA * _normal(_hash(seed ^ _EFFECTS, np.uint64(group)))
        y[n] = 1 if _low(own) * (1.0 + np.exp(-np.float32(eta))) < 1.0 else -1


@dataclass(frozen=True)
class Rows:
    """Rows start, ..., start + n_rows - 1, not made yet: a picklable descriptor."""

    seed: int
    start: int
    n_rows: int
    n_groups: int
    step: int

    def read(self, low: int, high: int) -> Iterator[WeightedData]:
        """Yield the rows low, ..., high - 1, in blocks of at most `step`."""
        for at in range(self.start + low, self.start + high, self.step):
            yield made(self.seed, at, min(self.step, self.start + high - at), self.n_groups)


@dataclass(frozen=True, eq=False)
class Generated:
    """`n_rows` rows, with `(1 | g)` of `n_groups` groups unless they are 0; `pool` makes them elsewhere."""

    n_rows: int
    n_groups: int = 0
    seed: int = 0
    pool: WorkerPool | None = None

    label = "y"
    classes = (0, 1)

    @property
    def design(self) -> Design:
        """The columns as they are."""
        return Design(NAMES, groups=(Grouping("g", tuple(range(self.n_groups))),) if self.n_groups else ())

    def division(self, step: int) -> Division:
        """Return the rows in pieces of at most `PIECE`."""
        starts = range(0, self.n_rows, PIECE)
        pieces = [Rows(self.seed, at, min(PIECE, self.n_rows - at), self.n_groups, step) for at in starts]
        return Division(pieces, self.pool)

    def blocks(self) -> Iterator[WeightedData]:
        """Yield the rows in order, made here."""
        for piece in self.division(block_rows(len(NAMES))).pieces:
            yield from piece.read(0, piece.n_rows)

    def row(self, index: int) -> WeightedData:
        """Return one row."""
        return made(self.seed, index, 1, self.n_groups)


def made(seed: int, start: int, n_rows: int, n_groups: int = 0) -> WeightedData:
    """Return the rows from `start` on."""
    X: FloatArray = np.empty((n_rows, len(NAMES)))
    y: LabelArray = np.empty(n_rows, dtype=np.int8)
    group: IntArray = np.empty((n_rows, 1) if n_groups else (0, 1), dtype=np.int64)
    level = LEVELS[1 if n_groups else 0]
    _fill(np.uint64(seed), start, n_groups, SLOPES, level, X, y, group)
    index = np.arange(start, start + n_rows)
    return WeightedData(X, y, np.ones(n_rows), index, group=group if n_groups else None)


def table(seed: int, start: int, n_rows: int, n_groups: int = 0) -> pa.Table:
    """Return the rows from `start` on as a table: eight columns of float32, `y` of 0 and 1, and `g`."""
    rows = made(seed, start, n_rows, n_groups)
    columns = {name: rows.X[:, d].astype(np.float32) for d, name in enumerate(NAMES)}
    if rows.group is not None:
        columns["g"] = rows.group[:, 0].astype(np.int32)
    return pa.table({**columns, "y": (rows.y > 0).astype(np.int8)})
