"""What golden cases see of coresets, draws, certificates, tables and pages: the one place that knows their fields.

Each function returns fields, arrays or text (a list of lines). Nothing is seen that depends on the machine or the day:
versions, times, digests. Where a field is renamed, it keeps its recorded name here, so that its numbers are compared.
"""

import json
from dataclasses import fields as fields_of
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.golden.case import Fields

TIME = 2.0  # seconds that sampling is said to have taken
_DAY = ("version", "created_at", "creation_library", "sampling_time", "posterior_of", "effects_of", "sample_dims")


def of_coreset(core: Any) -> Fields:
    """Return rows, what belongs to them, and what made them."""
    about = {key: value for key, value in core.summary().items() if "version" not in key}
    known = {name: getattr(core, name) for name in ("X", "weights", "index", "offset")}
    known |= {"side": core.y, "group": core.group}
    arrays = {name: np.asarray(value) for name, value in known.items() if value is not None}
    return {**arrays, "about": _lines(about), "shown": repr(core).splitlines()}


def of_draws(idata: Any) -> Fields:
    """Return every variable of the posterior, the statistics that all samplers have, and what made them."""
    found: dict[str, Any] = {}
    told = []
    for part in ("posterior", "sample_stats"):
        for name in sorted(map(str, idata[part].data_vars)):
            each = idata[part][name]
            if part == "sample_stats" and name not in _STATISTICS:
                continue
            found[f"{part} {name}"] = each.values
            told.append(f"{part} {name}: {', '.join(f'{dim} {size}' for dim, size in each.sizes.items())}")
    coords = idata["posterior"].coords
    told += [
        f"{name}: {list(map(str, coords[name].values))}"
        for name in sorted(map(str, coords))
        if name not in ("chain", "draw")
    ]
    return {**found, "about": told + _attrs(idata["posterior"].attrs)}


_STATISTICS = {"acceptance_rate", "diverging", "lp", "step_size"}


def of_corrected(idata: Any) -> Fields:
    """Return the corrected draws of a certificate, or word that there are none."""
    if idata is None:
        return {"corrected draws": ["none"]}
    posterior = idata["posterior"]
    found = {f"corrected {name}": posterior[name].values for name in sorted(map(str, posterior.data_vars))}
    return {**found, "corrected about": _attrs(posterior.attrs)}


def of_certificate(found: Any) -> Fields:
    """Return figures, tables, words and corrected draws of any certificate."""
    tables = {"coordinates": found.coordinates, "effects": found.effects}
    numbers = {}
    for own in fields_of(found):
        value = getattr(found, own.name)
        if isinstance(value, bool | int | float):
            numbers[own.name] = np.asarray(value)
    return {
        **numbers,
        "words": [*repr(found).splitlines(), found.text, found._elpd_text],
        **{key: value for name, own in tables.items() if len(own) for key, value in of_table(own, name).items()},
        **of_corrected(found.idata),
    }


def of_table(table: pd.DataFrame, name: str = "table") -> Fields:
    """Return each column of numbers as an array; index, names of columns, and columns of text as text."""
    found: dict[str, Any] = {f"{name} index": [str(each) for each in table.index.tolist()]}
    found[f"{name} columns"] = [str(table.index.names), *map(str, table.columns)]
    for column in table.columns:
        values = table[column]
        numeric = pd.api.types.is_numeric_dtype(values)
        found[f"{name}.{column}"] = values.to_numpy() if numeric else list(map(str, values))
    return found


def of_elpd(found: Any) -> Fields:
    """Return pointwise values and k-hat of an ArviZ `ELPDData` of either version, and its figures."""
    names = {"elpd": ("elpd_loo", "elpd"), "p": ("p_loo", "p"), "value": ("loo_i", "elpd_i"), "se": ("se",)}
    fields = {"k": np.asarray(found.pareto_k)}
    for name, known in names.items():
        fields[name] = np.asarray(next(getattr(found, key) for key in known if hasattr(found, key)))
    return fields


def of_figures(table: pd.DataFrame, name: str) -> Fields:
    """Return the numbers of a table as one array, a row for each of its rows, and its words as text.

    It is `of_table` for many small tables: an array of a file takes as much room as some fifty numbers.
    """
    numeric = [pd.api.types.is_numeric_dtype(table[column]) for column in table.columns]
    words = table.loc[:, [not each for each in numeric]].astype(str)
    found: dict[str, Any] = {f"{name} columns": [str(table.index.names), *map(str, table.columns)]}
    found[f"{name} rows"] = [
        " | ".join([str(label), *row])
        for label, row in zip(table.index.tolist(), words.itertuples(index=False), strict=True)
    ]
    if any(numeric):
        found[name] = table.loc[:, numeric].to_numpy(dtype=np.float64)
    return found


def of_some_draws(draws: Any, name: str, *, every: int) -> Fields:
    """Return some draws of the value of each row, and mean and sd of all draws."""
    values = np.asarray(draws.values)
    about = [f"{values.dtype}, {dict(draws.sizes)}, {dict(draws.attrs)}"]
    figures = np.column_stack([values.mean(axis=0), values.std(axis=0)])
    return {f"{name} about": about, f"{name} mean and sd": figures, name: values[::every]}


def of_some_rows_left_out(found: Any, name: str, *, every: int) -> Fields:
    """Return figures of an `ELPDData`, and of some rows their density and k-hat."""
    seen = of_elpd(found)
    pointwise = np.column_stack([seen.pop("value"), seen.pop("k")])
    return {
        **of_figures(pd.DataFrame({key: [float(value)] for key, value in seen.items()}), name),
        f"{name} of rows": pointwise[::every],
        f"{name} of rows, mean": pointwise.mean(axis=0, keepdims=True),
    }


def undated(idata: Any) -> Any:
    """Return a posterior that took `TIME`, by no version: pages show both."""
    versions = dict.fromkeys(("inference_library_version", "bayescore_version"), "any")
    idata["posterior"].attrs.update(versions, sampling_time=TIME)
    return idata


def of_page(path: Path) -> Fields:
    """Return the text of an HTML page, pictures' too: a line for each paragraph, item and row of a table."""
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    reader.close()
    return {"text": [line for line in reader.lines if not line.startswith("Made with ")]}


class _Reader(HTMLParser):
    """Collects the text of a page."""

    _BREAKS = frozenset({"p", "li", "tr", "h1", "h2", "h3", "dt", "dd", "pre", "figcaption", "summary", "title", "div"})
    _SKIPPED = frozenset({"style", "script", "svg"})

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in self._SKIPPED
        if tag in self._BREAKS:
            self._end()
        if tag in ("td", "th"):
            self._parts.append(" | ")
        if tag == "img":
            self._parts.append(f"[{dict(attrs).get('alt', '')}]")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in self._SKIPPED
        if tag in self._BREAKS:
            self._end()

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._parts.append(data)

    def _end(self) -> None:
        line = " ".join("".join(self._parts).split())
        self._parts = []
        if line:
            self.lines.append(line)

    def close(self) -> None:
        super().close()
        self._end()


def _attrs(attrs: Any) -> list[str]:
    return [
        f"{key}: {value}"
        for key, value in sorted(attrs.items())
        if not any(word in key for word in _DAY) and key not in ("coreset", "design")  # seen as the coreset's
    ]


def _lines(value: Any) -> list[str]:
    """Return JSON with a line for each value."""
    return json.dumps(value, indent=1, ensure_ascii=False).splitlines()
