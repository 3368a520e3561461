"""Whether the rows tell what group terms ask for: errors and warnings from the pass that checks the rows.

Rows of a coreset, those that come once, and those for a design of other rows are not looked at.

Warns of columns that depend on each other linearly, by the rows of a coreset that keep the curvature of all rows.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from bayescore.coresets.method import BuildResult
from bayescore.coresets.scores import r_factor
from bayescore.data.coreset import Coreset
from bayescore.data.dataset import Dataset
from bayescore.data.design import Grouping, bend_columns, term_text, terms_text
from bayescore.data.responses import LABELS, response_of
from bayescore.models.groups.rows import codes_among
from bayescore.priors.groups import NULL
from bayescore.text import listed, see
from bayescore.types import FloatArray, IntArray, WeightedData
from bayescore.validation import DataError, warn

_UNSEEN, _SEVERAL = -1, -2  # partners of a level in another factor


class _Checks(NamedTuple):
    """What is looked at, in numbers that travel to other processes."""

    sizes: tuple[int, ...]  # numbers of levels
    slopes: tuple[tuple[int, tuple[int, ...]], ...]  # places of factors, and of their columns
    labels: tuple[int, ...]  # places of factors whose intercept varies
    pairs: tuple[tuple[int, int], ...]  # of factors with as many levels, by which the same varies


class _Findings(NamedTuple):
    """What rows of a block show; lists in the order of `_Checks`, of the levels that the block has."""

    slopes: list[tuple[IntArray, FloatArray]]  # levels, and the largest -x and x of each, shape (2, levels, columns)
    labels: list[tuple[IntArray, NDArray[np.bool_]]]  # levels, and whether they have label -1, and +1, (2, levels)
    pairs: list[tuple[IntArray, IntArray]]  # levels of the first factor, and the one of the second that goes with each
    n_rows: int  # a count, or the outcomes of trials, is one


@contextmanager
def checking_group_terms(dataset: Dataset) -> Iterator[None]:
    """Raise if slopes are of a column that is constant in every group; warn where priors alone tell sds.

    The pass over the rows is the one of the body that checks them, if it makes one.
    """
    design = dataset.design
    if not design.groups or design.classes is not None:
        yield
        return
    asked, n_rows = _planned_checks(dataset), 0
    # of all levels, and last of rows whose level is not known
    slopes = [np.full((2, asked.sizes[f] + 1, len(columns)), -np.inf) for f, columns in asked.slopes]
    labels = [np.zeros((2, asked.sizes[f] + 1), dtype=bool) for f in asked.labels]
    pairs = [np.full(asked.sizes[f], _UNSEEN) for f, _ in asked.pairs]

    def take(part: _Findings) -> None:
        nonlocal n_rows
        n_rows += part.n_rows
        for (codes, high), highest in zip(part.slopes, slopes, strict=True):
            highest[:, codes] = np.maximum(highest[:, codes], high)
        for (codes, seen), labels_before in zip(part.labels, labels, strict=True):
            labels_before[:, codes] |= seen
        for (codes, new), partner in zip(part.pairs, pairs, strict=True):
            old = partner[codes]
            partner[codes] = np.where(old == _UNSEEN, new, np.where(old == new, old, _SEVERAL))

    with dataset.map_alongside(lambda _, block: _inspect_block(block, asked), take):
        yield
        if n_rows == 0:
            deque(dataset.scan_and_map(lambda *_: None), maxlen=0)
    for (place, columns), (low, high) in zip(asked.slopes, slopes, strict=True):
        _check_slopes(design.groups[place], [design.names[d] for d in columns], low[:-1], high[:-1])
    for place, labels_before in zip(asked.labels, labels, strict=True):
        if not labels_before[:, :-1].all(axis=0).any():
            _warn_of_labels(design.groups[place])
    for (one, other), partner in zip(asked.pairs, pairs, strict=True):
        if partner.min() >= 0 and len(np.unique(partner)) == len(partner):
            _warn_of_alias(design.groups[one], design.groups[other])
    for group in design.groups:
        _warn_of_effects(group, n_rows)


def _planned_checks(dataset: Dataset) -> _Checks:
    design = dataset.design
    sizes, labels = tuple(len(group) for group in design.groups), []
    slopes = []
    for place, group in enumerate(design.groups):
        varying = [effect for effect in group.effects if effect != "1" and effect in design.names]
        if columns := tuple(design.names.index(effect) for effect in varying):
            slopes.append((place, columns))
        if "1" in group.effects and response_of(dataset.source.classes) == LABELS:
            labels.append(place)
    pairs = [
        (f, g)
        for f, g in combinations(range(len(sizes)), 2)
        if sizes[f] == sizes[g] and set(design.groups[f].effects) & set(design.groups[g].effects)
    ]
    return _Checks(sizes, tuple(slopes), tuple(labels), tuple(pairs))


def _inspect_block(block: WeightedData, asked: _Checks) -> _Findings:
    look = _Findings([], [], [], 1 + int(np.count_nonzero(np.diff(block.index))))
    for place, columns in asked.slopes:
        codes, places = codes_among(block.group_codes[:, place], asked.sizes[place])
        high, x = np.full((2, len(codes), len(columns)), -np.inf), block.X[:, list(columns)]
        np.maximum.at(high[0], places, -x)
        np.maximum.at(high[1], places, x)
        look.slopes.append((codes, high))
    side = (block.y > 0).astype(np.int64)
    for place in asked.labels:
        codes, places = codes_among(block.group_codes[:, place], asked.sizes[place])
        seen = np.zeros((2, len(codes)), dtype=bool)
        seen[side, places] = True
        look.labels.append((codes, seen))
    for one, other in asked.pairs:
        both = block.group_codes[:, [one, other]]
        first, second = both[(both >= 0).all(axis=1)].T
        codes, places = codes_among(first, asked.sizes[one])
        partner = np.full(len(codes), _UNSEEN)
        partner[places] = second
        partner[places[partner[places] != second]] = _SEVERAL
        look.pairs.append((codes, partner))
    return look


def _check_slopes(grouping: Grouping, effects: list[str], low: FloatArray, high: FloatArray) -> None:
    for k, effect in enumerate(effects):
        if not (high[:, k] > -low[:, k]).any():
            blocks = [tuple(other for other in block if other != effect) for block in grouping.effect_blocks]
            left = " + ".join(term_text(block, grouping.name) for block in blocks if block)
            raise DataError(
                f"{effect!r} is constant within every level of {grouping.name!r}: in {terms_text((grouping,))} only "
                f"the sum of a level's intercept and its slope times {effect!r} is identified; leave the slope out, "
                f"{left or term_text(('1',), grouping.name)}"
            )


def _warn_of_labels(by: Grouping) -> None:
    warn(
        f"every one of the {len(by):,} levels of {by.name!r} has rows of one label only: the data set no upper limit "
        f"to the sd of its effects, which its prior alone limits, and sampling is slow; give a tighter prior, as "
        f"group_prior=bc.priors.HalfNormal(1.0), or leave {terms_text((by,))} out"
        f"{see('how-to/separated.md#groups-of-one-label-each')}"
    )


def _warn_of_alias(one: Grouping, other: Grouping) -> None:
    warn(
        f"{one.name!r} and {other.name!r} are one factor under two names: each level of one is one level of the other. "
        f"The data tell only the sum of their effects, and the priors of the two sds alone share it out; leave "
        f"{terms_text((one,))} or {terms_text((other,))} out"
    )


def _warn_of_effects(by: Grouping, n_rows: int) -> None:
    n_effects = len(by) * len(by.effects)
    if n_effects > n_rows:
        warn(
            f"{terms_text((by,))} has {n_effects:,} effects, {len(by.effects)} for each of {len(by):,} levels, and "
            f"the data have {n_rows:,} rows: the prior largely sets their sds; let fewer columns vary, or use fewer "
            "levels"
        )


_PART = 1e-3  # an entry of a dependence below this share of its largest counts as 0


_CENTRED = ("cr(", "cc(", "cs(")  # splines whose columns add up to 1


def warn_of_dependent_columns(core: Coreset, built: BuildResult[Any]) -> None:
    """Warn if some columns are linear combinations of others: rows do not tell their coefficients apart.

    A coreset that misses, whose build says so, cannot tell.
    """
    if built.caution or not built.method.keeps_curvature or len(core) < core.n_features:
        return
    dependent = dependence(core)
    if not len(dependent):
        return
    names = [core.design.names[d] for d in dependent]
    remedy = "drop one"
    if len({name.split("[")[0] for name in names}) == 1 and names[0].startswith(_CENTRED):
        remedy = "give the spline constraints='center'"
    warn(
        f"columns {listed(names)} depend on each other linearly: the rows do not tell their coefficients apart, and "
        f"the prior alone decides between them; {remedy}"
    )


def dependence(core: Coreset) -> IntArray:
    """Return the places of columns, one a linear combination of the others and the intercept; empty without any.

    Left out are columns of zeros, and beside an intercept constant ones, which have warnings of their own.
    """
    factor = r_factor(np.sqrt(core.weights)[:, None] * core.X)
    length = np.linalg.norm(factor, axis=0)
    kept, constant = np.flatnonzero(length > 0.0), core.design.constant
    for term in core.design.smooths:  # their sd tells bends apart, and no bend can be dropped
        kept = np.setdiff1d(kept, bend_columns(core.design, term))
    if constant is not None:
        kept = kept[kept != constant]
    columns = factor[:, kept] / length[kept]
    if constant is not None:
        one = factor[:, constant] / length[constant]
        columns -= np.outer(one, one @ columns)
    left = np.linalg.norm(columns, axis=0)
    varies = left**2 > NULL
    kept, columns = kept[varies], columns[:, varies] / left[varies]
    _, values, turned = np.linalg.svd(columns, full_matrices=False)
    null = turned[values**2 < NULL].T
    if not null.shape[1]:
        return np.empty(0, dtype=np.int64)
    parts = np.abs(_sparsest(null))
    return np.asarray(kept[parts > _PART * parts.max()])


def _sparsest(null: FloatArray) -> FloatArray:
    """Return the vector with fewest entries of a reduced basis of the null space, shape (D,)."""
    r = null.shape[1]
    pivots = linalg.qr(null.T, mode="r", pivoting=True)[1][:r]
    basis = null @ np.linalg.inv(null[pivots])
    entries = (np.abs(basis) > _PART * np.abs(basis).max(axis=0)).sum(axis=0)
    return np.asarray(basis[:, np.argmin(entries)])
