"""A walk: columns as people have them x sources x verbs. A cell is right, refused by name, or does not apply.

Right is what the same rows give as plain text or numbers in a frame. A cell that ends in another way fails; the counts
are printed. Of other sources, verbs that read no row of them have but design, coreset and draws, which are the frame's.
"""

import tempfile
import warnings
from collections import Counter
from functools import cache
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bayescore as bc
from bayescore.validation import DataError

N = 240
RNG = np.random.default_rng(6)
LEVELS = np.array(["low", "mid", "top"])
CODE = RNG.integers(0, 3, N)
X = RNG.normal(size=N).round(3)
Y = (X + 0.8 * (CODE == 2) + RNG.logistic(size=N) > 0).astype(int)
GROUP = RNG.integers(0, 9, N)  # so many that the first draws do
BOUNDS = [0, 1, 2, 3]


def columns():
    """Return by name: the column f of rows, its levels as text in order, and the formula."""
    order = list(LEVELS)
    bins = ["(0, 1]", "(1, 2]", "(2, 3]"]
    months = ["2024-01", "2024-02", "2024-03"]
    text = pd.Series(LEVELS[CODE])
    return {
        "text": (text, sorted(order), "y ~ x + f"),
        "categorical": (pd.Series(pd.Categorical(text, order[::-1])), order[::-1], "y ~ x + f"),
        "ordered categorical": (pd.Series(pd.Categorical(text, order, ordered=True)), order, "y ~ x + f"),
        "pandas.cut": (pd.Series(pd.cut(CODE + 0.5, BOUNDS)), bins, "y ~ x + f"),
        "periods": (pd.Series(pd.Categorical(pd.PeriodIndex(np.array(months)[CODE], freq="M"))), months, "y ~ x + f"),
        "categories of numbers": (pd.Series(pd.Categorical(CODE)), ["0", "1", "2"], "y ~ x + f"),
        "numbers, C()": (pd.Series(CODE), ["0", "1", "2"], "y ~ x + C(f)"),
        "booleans": (pd.Series(CODE == 2), None, "y ~ x + f"),
        "whole numbers": (pd.Series(CODE), None, "y ~ x + f"),
        "groups of large numbers": (pd.Series(2**53 + GROUP), [str(2**53 + k) for k in range(9)], "y ~ x + (1 | f)"),
        "dates": (pd.Series(pd.to_datetime("2024-01-01") + pd.to_timedelta(CODE, "D")), None, "y ~ x + f"),
        "mixed": (pd.Series(np.array([1, "a", "b"], dtype=object)[CODE]), None, "y ~ x + f"),
        "lists": (pd.Series([[1]] * N), None, "y ~ x + f"),
        "identifiers": (pd.Series([f"id{k}" for k in range(N)]), None, "y ~ x + f"),
        "not named": (pd.Series([[1]] * N), None, "y ~ x"),
    }


def _parquet(frame, folder):
    frame.to_parquet(folder / "rows.parquet")
    return folder / "rows.parquet"


def _csv(frame, folder):
    frame.to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


SOURCES = {
    "frame": lambda frame, _: frame,
    "polars": lambda frame, _: pl.from_pandas(frame),
    "arrow": lambda frame, _: pa.Table.from_pandas(frame, preserve_index=False),
    "parquet": _parquet,
    "csv": _csv,
    "dask": lambda frame, _: dd.from_pandas(frame, npartitions=2),
}
OTHERS = [kind for kind in SOURCES if kind != "frame"]
REFUSED = {"dates", "mixed", "lists", "identifiers"}
PLAIN_COLUMNS = {"text", "numbers, C()", "booleans", "whole numbers", "groups of large numbers", "identifiers"}
KEPT = {"csv": PLAIN_COLUMNS, "polars": PLAIN_COLUMNS | {"ordered categorical", "dates", "lists", "not named"}}
EXTENSIONS = {"pandas.cut", "periods"}  # types of pandas, that Arrow takes out of their categories


# what Dask makes text, and what a file keeps as plain numbers
LOST = {("dask", "mixed")}


def _source(kind, frame, folder):
    """Return the rows from a source; None where its library cannot hold them, or does not keep what the column is."""
    column = frame.attrs["column"]
    if column not in KEPT.get(kind, {column}) or (kind, column) in LOST:
        return None
    try:
        return SOURCES[kind](frame, folder)
    except Exception:  # the library's own refusal
        return None


VERBS = {
    "predict": lambda fit, frame, _: fit.predict(frame.head(7))["mean"],
    "update": lambda fit, frame, _: fit.update(frame.head(60)).summary()["mean"],
    "save, read": lambda fit, frame, folder: _again(fit, frame, folder).predict(frame.head(7))["mean"],
    "comparisons": lambda fit, _, __: fit.comparisons("f")["mean"],
    "averages": lambda fit, _, __: fit.average_predictions(by="f")["mean"],
    "slopes": lambda fit, _, __: fit.slopes("x")["mean"],
    "page": lambda fit, _, folder: pd.Series([len(str(fit.report(folder / "page.html"))) > 0], dtype=float),
}


WITHOUT_ROWS = ("predict", "update", "save, read")


def _again(fit, frame, folder):
    fit.save(folder / "model")
    return bc.read_fit(folder / "model", frame)


def _fit(formula, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bc.fit(formula, data, random_state=1, progressbar=False)


def _tried(formula, data):
    try:
        return _fit(formula, data), ""
    except DataError as error:
        return None, str(error)


def _applies(verb, column):
    without = {"groups of large numbers": ("comparisons",), "not named": ("comparisons", "averages")}
    return verb not in without.get(column, ())


@cache
def _expected(column):
    """Return means of the fit of the rows as plain text or numbers in a frame, and what each verb says."""
    values, levels, formula = columns()[column]
    plain = pd.DataFrame({"f": values, "x": X, "y": Y})
    if levels is not None:
        shown = values.astype("category").cat.rename_categories(str) if column != "text" else values
        plain = plain.assign(f=pd.Categorical(shown.astype(str), levels))
    fit = _fit("y ~ x + f" if "C(" in formula else formula, plain)
    with tempfile.TemporaryDirectory() as name:
        answers = {verb: ask(fit, plain, Path(name)) for verb, ask in VERBS.items() if _applies(verb, column)}
    return fit.summary()["mean"], answers


@cache
def _framed(column):
    """Return the rows of a column as a frame, and their fit."""
    values, _, formula = columns()[column]
    frame = pd.DataFrame({"f": values, "x": X, "y": Y})
    frame.attrs["column"] = column
    return frame, *_tried(formula, frame)


def _same(fit, other):
    """Whether two fits have the same design, coreset and draws."""
    one, two = fit.coreset, other.coreset
    arrays = all(np.array_equal(getattr(one, name), getattr(two, name)) for name in ("X", "y", "weights", "group"))
    draws = fit._used["posterior"]["beta"].equals(other._used["posterior"]["beta"])
    return arrays and draws and one.design.to_dict() == two.design.to_dict()


def _walk(column, kinds):
    """Return how the cells of a column end."""
    formula = columns()[column][2]
    frame, *framed = _framed(column)
    ends = Counter()
    for kind in kinds:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            data = _source(kind, frame, folder)
            if data is None:
                ends["n/a"] += 1 + len(VERBS)
                continue
            fit, refusal = framed if kind == "frame" else _tried(formula, data)
            if fit is None:
                assert "'f'" in refusal
                assert column in REFUSED or (column in EXTENSIONS and kind != "frame")
                ends["refused by name"] += 1
                ends["n/a"] += len(VERBS)
                continue
            assert column not in REFUSED
            means, answers = _expected(column)
            assert np.array_equal(fit.summary()["mean"], means), (column, kind)
            ends["right"] += 1
            for verb, ask in VERBS.items():
                if not _applies(verb, column):
                    ends["n/a"] += 1
                    continue
                if kind != "frame" and verb in WITHOUT_ROWS:
                    assert _same(fit, framed[0]), (column, kind)
                    ends["right"] += 1
                    continue
                assert np.array_equal(ask(fit, frame, folder), answers[verb]), (column, kind, verb)
                ends["right"] += 1
    return ends


def _shown(ends):
    return ", ".join(f"{name}: {count}" for name, count in sorted(ends.items()))


@pytest.mark.parametrize("column", columns())
def test_the_walk_of_a_frame(column, capsys):
    ends = _walk(column, ["frame"])
    with capsys.disabled():
        print(f"\n{column}: {_shown(ends)}", end="")


@pytest.mark.slow
@pytest.mark.parametrize("column", columns())
def test_the_walk_of_other_sources(column, capsys):
    ends = _walk(column, OTHERS)
    with capsys.disabled():
        print(f"\n{column}, {len(OTHERS)} sources: {_shown(ends)}", end="")
