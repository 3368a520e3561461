"""Coresets: each method for each likelihood, each source, what stands beside rows, formulas and groups."""

import re
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

import bayescore as bc
from tests.cuts import build_in_blocks
from tests.golden import rows, view
from tests.golden.case import Fields, case
from tests.methods import METHODS

SEED = 3
LINKS = ("logistic", "probit")


def made(build: Callable[..., Any], *data: Any, random_state: int = SEED, **options: Any) -> Fields:
    """Return what `build` makes of the data, and the words of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        core = build(*data, random_state=random_state, **options)
    own = [str(each.message) for each in caught if "tests" in Path(each.filename).parts]
    return {**view.of_coreset(core), "warnings": own}


def built(*data: Any, **options: Any) -> Fields:
    """Return a coreset of `build_coreset`."""
    return made(bc.build_coreset, *data, progressbar=False, **options)


def in_blocks(name: str, family: str, **options: Any) -> Fields:
    """Return a coreset of arrays in several blocks, by a method of `METHODS`."""
    told = {"family": family, "block_rows": rows.BLOCK, **METHODS[name], **options}
    return made(build_in_blocks, rows.X, rows.Y, **told)


for _name, _family in product(METHODS, LINKS):
    if _family == "probit" and ("sensitivity" in _name or _name == "auto"):
        continue  # the bound is the logistic likelihood's, and the rule the same
    case(f"{_name}, {_family}")(partial(in_blocks, _name, _family))
for _name in ("calibrated", "condensed", "merge_reduce by condensed"):
    case(f"{_name}, cloglog")(partial(in_blocks, _name, "cloglog"))
for _name in ("uniform", "sensitivity", "merge_reduce", "calibrated", "condensed", "aggregate"):
    _design = {"intercept": True, "standardize": True, "weights": rows.FRAME["w"].to_numpy()}
    case(f"{_name}, weights, intercept, standardized")(partial(in_blocks, _name, "logistic", **_design))


# --- sources: tests/coresets/test_every_source.py proves that all give what arrays do ---------------------------------


def _stream(step: int = 700) -> Any:
    return ((rows.X[i : i + step], rows.Y[i : i + step]) for i in range(0, rows.N, step))


def from_source(kind: str, name: str) -> Fields:
    """Return a coreset of rows that come in another way than as arrays."""
    options, frame = METHODS[name], rows.FRAME[[*rows.FEATURES, "y"]]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        if kind == "stream":
            return built(_stream(), **options)
        if kind == "callable":
            return built(_stream, **options)
        if kind == "frame":
            return built(frame, label="y", **options)
        if kind == "csv":
            frame.to_csv(path.with_suffix(".csv"), index=False)
            return built(path.with_suffix(".csv"), label="y", **options)
        if kind == "parquet":
            frame.to_parquet(path.with_suffix(".parquet"), row_group_size=900)
            return built(path.with_suffix(".parquet"), label="y", **options)
        if kind == "sparse":
            from scipy.sparse import csr_array

            return built(csr_array(rows.X), rows.Y, **options)
        import dask.dataframe as dd

        return built(dd.from_pandas(frame, npartitions=5), label="y", **options)


for _kind, _name in product(("parquet", "dask", "stream"), ("uniform", "merge_reduce")):
    case(f"{_name} of a {_kind}")(partial(from_source, _kind, _name))
for _kind in ("callable", "frame", "csv", "sparse", "parquet", "dask"):
    case(f"leverage of a {_kind}")(partial(from_source, _kind, "leverage"))
case("auto of a stream")(partial(from_source, "stream", "auto"))


def _fed(method: str, **options: Any) -> Any:
    stream = bc.stream(method, size=32, intercept=True, **options)
    for part in np.array_split(np.arange(rows.N), 7):
        stream.partial_fit(rows.X[part], rows.Y[part])
    return stream.coreset()


case("stream, online")(partial(made, partial(_fed, "online"), family="probit"))
case("stream, merge_reduce")(partial(made, partial(_fed, "merge_reduce"), leaf_rows=800))


# --- what stands beside rows ------------------------------------------------------------------------------------------

_BESIDE = [*rows.FEATURES, "y", "w", "o"]
OFFSETS = {"label": "y", "weights": "w", "offset": "o", "intercept": True}
for _name in ("uniform", "leverage", "calibrated", "condensed", "merge_reduce"):
    case(f"{_name}, weights and offsets")(partial(built, rows.FRAME[_BESIDE], **{**METHODS[_name], **OFFSETS}))
for _name in ("aggregate", "calibrated"):
    case(f"{_name}, trials")(
        partial(
            built,
            rows.FRAME[["x1", "x2", "s", "n"]],
            label="s",
            trials="n",
            intercept=True,
            **METHODS[_name],
        )
    )
RARE = {
    "calibrated": {"size": 100},
    "condensed": {"size": 60},
    "condensed, probit": {"size": 100, "family": "probit"},
    "merge_reduce by condensed": {"reducer": "condensed", "size": 60, "leaf_rows": 800},
    "leverage": {"size": 60},
    "multilevel": {"groups": "g"},
}
for _name, _options in RARE.items():
    _told = {"method": re.split(" |,", _name)[0], "label": "y", "intercept": True, **_options}
    _rows = rows.rare() if "groups" in _options else rows.rare().drop(columns="g")
    case(f"{_name}, rare columns")(partial(built, _rows, **_told))
case("calibrated, rows with gaps dropped")(
    partial(built, rows.with_gaps(), label="y", missing="drop", method="calibrated", size=80)
)
case("calibrated, the other label positive")(
    partial(built, rows.FRAME[[*rows.FEATURES, "y"]], label="y", positive="no", method="calibrated", size=80)
)


# --- formulas ---------------------------------------------------------------------------------------------------------

FORMULAS = {
    "factors and interactions": "y ~ x0 * device + C(x1, Sum)",
    "splines and polynomials": "y ~ bs(age, df=4) + poly(x0, 2) + scale(x1) + device",
    "without intercept": "y ~ 0 + device + I(x0**2)",
}
for _name, _formula in FORMULAS.items():
    case(f"formula: {_name}")(partial(built, rows.FRAME, formula=_formula, method="calibrated", size=120))
case("formula, standardized, offsets")(
    partial(built, rows.FRAME, formula="y ~ age + device", standardize=True, offset="o", method="calibrated", size=90)
)
case("columns of text as factors")(
    partial(built, rows.FRAME[["x0", "device", "y"]], label="y", method="leverage", size=40)
)


# --- groups -----------------------------------------------------------------------------------------------------------

GROUPED = rows.FRAME[[*rows.FEATURES, "y", "w", "o"]].assign(county=[f"c{code:02d}" for code in rows.GROUP])
TERMS = {
    "(1 | a)": rows.crossed,
    "(1 + x | a)": rows.slopes,
    "(1 | a) + (1 | b)": rows.crossed,
    "(1 | a) + (1 | b), nested": rows.nested,
    "(1 + x | a) + (1 | b)": rows.crossed,
}


def of_terms(terms: str, family: str = "logistic", **options: Any) -> Any:
    """Return the multilevel coreset of a formula's group terms."""
    formula = f"y ~ w + x + z + {terms.partition(',')[0]}"
    told = {"formula": formula, "family": family, "method": "multilevel", "progressbar": False}
    return bc.build_coreset(TERMS[terms](), **{**told, **options})


for _terms in TERMS:
    case(f"multilevel, {_terms}")(partial(made, partial(of_terms, _terms)))
case("multilevel, (1 + x | a), probit")(partial(made, partial(of_terms, "(1 + x | a)", "probit")))
for _family in LINKS:
    case(f"multilevel, arrays, {_family}")(
        partial(built, rows.X, rows.Y, groups=rows.GROUP, intercept=True, method="multilevel", family=_family)
    )


def beside_groups(name: str, frame: pd.DataFrame, **options: Any) -> Fields:
    """Return a coreset of rows with groups, weights and offsets."""
    return built(frame, **{"method": name, **METHODS.get(name, {}), "groups": "county", **OFFSETS, **options})


FEW_VALUES = GROUPED.drop(columns=["x0", "x1"]).assign(o=GROUPED["o"].round())
for _name, _frame in {"multilevel": GROUPED, "aggregate": FEW_VALUES, "uniform": GROUPED}.items():
    case(f"{_name}, groups, weights and offsets")(partial(beside_groups, _name, _frame))


def _all_rows(random_state: int, **options: Any) -> Any:
    frame = GROUPED.iloc[:150].drop(columns="w")
    return bc.all_rows(frame, label="y", offset="o", groups="county", progressbar=False, **options)


def _new_rows(random_state: int) -> Any:
    frame: pd.DataFrame = GROUPED.iloc[150:200].assign(county=lambda own: own["county"].replace("c03", "new"))
    design = _all_rows(0).design
    return bc.all_rows(frame.drop(columns="w"), label="y", design=design, new_groups=True, progressbar=False)


case("all_rows, groups and offsets")(partial(made, _all_rows))
case("all_rows, of a design, new groups")(partial(made, _new_rows))
