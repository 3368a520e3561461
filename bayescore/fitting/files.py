"""A fit as a folder: `Fit.save` and `read_fit`.

=====================  =============================================================================
coreset.parquet        the coreset, as `Coreset.to_parquet` writes it
drawn.nc, used.nc      the draws, and the certificate's corrected ones if there are any (netCDF)
coordinates.parquet    the certificate's tables
effects.parquet
robust.nc              draws with cluster-robust spread, if there are any
kept.npz               what updates need of the rows: sums and a sample of them
fit.json               format, story, prior, roles, the certificate's figures, SHA-256 of all files
=====================  =============================================================================

The folder is written under another name and renamed once it is complete. Reading runs no code: Parquet, netCDF and
JSON hold values.
"""

import hashlib
import json
import os
import shutil
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from bayescore.data.coreset import read_coreset
from bayescore.diagnostics.model_check import Dispersion
from bayescore.diagnostics.results import CertificateData, Level, Need, Remedy
from bayescore.files import check_path, read_checkpoint, write_checkpoint
from bayescore.fitting.earlier import EarlierRows, kept_from_arrays, kept_to_arrays
from bayescore.fitting.parts import FitParts
from bayescore.fitting.route import Step, rows_like
from bayescore.priors.by_name import given_from_dict, given_to_dict
from bayescore.report.certify import Certificate
from bayescore.samplers.posterior import load_posterior, write_posterior
from bayescore.validation import DataError, json_object

FORMAT = 1
ABOUT = "fit.json"
_TABLES = ("coordinates", "effects")
_LEVELS = "group, JSON"
_KEPT = "kept.npz"
_DRAWS = ("drawn.nc", "used.nc", "robust.nc")
_FILES = {ABOUT, "coreset.parquet", _KEPT, *_DRAWS, *(f"{name}.parquet" for name in _TABLES)}


def save_fit(fit: FitParts, folder: str | Path) -> None:
    """Write a fit to a folder, whole or not at all; one that holds an earlier fit is replaced."""
    target = check_folder(folder)
    partial, old = (target.with_name(f".{target.name}.{os.getpid()}.{kind}") for kind in ("part", "old"))
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        _write(fit, partial)
        if target.exists():
            os.replace(target, old)
        try:
            os.replace(partial, target)
        except OSError:
            if old.exists():
                os.replace(old, target)
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def check_folder(folder: str | Path, name: str = "folder") -> Path:
    """Return the folder if a fit can be written there: it is new or empty, or holds a fit."""
    target = check_path(folder, name).absolute()
    if not target.name or target == Path.cwd():
        raise FileExistsError(f"{name}={str(folder)!r} is the folder you are in; name a new one")
    there = {path.name for path in target.iterdir()} if target.is_dir() else set()
    if (target.exists() and not target.is_dir()) or (there and ABOUT not in there):
        raise FileExistsError(f"{name}={str(target)!r} exists and holds no fit; name a new folder")
    if others := sorted(there - _FILES):
        raise FileExistsError(
            f"{name}={str(target)!r} has {others[0]!r} beside a fit, which would be lost; move it away"
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{name}={str(target)!r}: the folder {str(target.parent)!r} does not exist; create it")
    return target


def _write(fit: FitParts, folder: Path) -> None:
    fit.coreset.to_parquet(folder / "coreset.parquet")
    write_posterior(fit.drawn, folder / "drawn.nc")
    found = fit.certificate
    if found.idata is not None:
        write_posterior(found.idata, folder / "used.nc")
    if fit.robust is not None:
        write_posterior(fit.robust, folder / "robust.nc")
    for name in _TABLES:
        _for_parquet(getattr(found, name)).to_parquet(folder / f"{name}.parquet")
    if fit.kept:
        write_checkpoint(folder / _KEPT, EarlierRows.__name__, {}, kept_to_arrays(fit.kept))
    plain = {field.name: getattr(found, field.name) for field in fields(CertificateData)}
    certificate = {name: plain[name] for name in plain if name not in (*_TABLES, "idata", "remedy")}
    if found.dispersion is not None:
        certificate["dispersion"] = vars(found.dispersion)
    remedy = found.remedy
    given = fit.given
    roles = {} if given is None else {name: own for name, own in given.roles.items() if _named(own)}
    about = {
        "format": FORMAT,
        "version": version("bayescore"),
        "level": fit.level,
        "story": [step.to_dict() for step in fit.story],
        "prior": None if fit.prior is None else given_to_dict(fit.prior),
        "seed": fit.seed,
        "max_seconds": fit.max_seconds,
        "roles": roles,
        "arrays": [] if given is None else sorted(set(given.roles) - set(roles)),
        "certificate": {**certificate, "level": str(found.level)},
        "remedy": None if remedy is None else {**vars(remedy), "need": str(remedy.need)},
        "files": {path.name: _sha256(path.read_bytes()) for path in sorted(folder.iterdir())},
    }
    text = json.dumps(about, indent=1)
    (folder / ABOUT).write_text(json.dumps({"sha256": _sha256(text.encode()), "fit": about}, indent=1), "utf-8")


def read_parts(folder: str | Path, data: Any, y: Any, *, progressbar: bool) -> dict[str, Any]:
    """Return the fields of the fit that `save_fit` wrote; raise `DataError` naming a file that was changed since."""
    source = check_path(folder, "folder")
    if not (source / ABOUT).is_file():
        raise FileNotFoundError(f"folder={str(source)!r} holds no fit: there is no {ABOUT} in it")
    changed = f"{str(source / ABOUT)!r} was changed after bayescore wrote it, or is damaged; fit again"
    whole = json_object((source / ABOUT).read_text("utf-8"), changed)
    about = whole.get("fit")
    if not isinstance(about, dict):
        raise DataError(changed)
    if about.get("format") != FORMAT:
        raise DataError(f"{str(source)!r} has fit format {about.get('format')!r}; this version reads {FORMAT}")
    if _sha256(json.dumps(about, indent=1).encode()) != whole.get("sha256"):
        raise DataError(changed)
    for name, digest in about["files"].items():
        path = source / name
        if not path.is_file() or _sha256(path.read_bytes()) != digest:
            raise DataError(f"{str(path)!r} was changed after bayescore wrote it, or is damaged or gone; fit again")
    core = read_coreset(source / "coreset.parquet")
    figures = {**about["certificate"], "level": Level(about["certificate"]["level"])}
    figures |= {name: _from_parquet(pd.read_parquet(source / f"{name}.parquet")) for name in _TABLES}
    if figures.get("dispersion") is not None:
        figures["dispersion"] = Dispersion(**figures["dispersion"])
    remedy = about["remedy"]
    if remedy is not None:
        figures["remedy"] = Remedy(**{**remedy, "need": Need(remedy["need"])})
    if "used.nc" in about["files"]:
        figures["idata"] = load_posterior(source / "used.nc")
    kept: tuple[EarlierRows, ...] = ()
    if _KEPT in about["files"]:
        kept = kept_from_arrays(read_checkpoint(source / _KEPT, EarlierRows.__name__)[1], core)
    given = None
    if data is not None:
        if about["arrays"]:
            raise DataError(
                f"data is given, and the fit was made with {' and '.join(about['arrays'])} as arrays, which it did not "
                "keep: fit rows that have columns of them, or leave data out"
            )
        given = rows_like(core, data, y, roles=about["roles"], progressbar=progressbar, known=False)
    return {
        "coreset": core,
        "drawn": load_posterior(source / "drawn.nc"),
        "certificate": Certificate(**figures),
        "story": tuple(Step(**step) for step in about["story"]),
        "prior": None if about["prior"] is None else given_from_dict(about["prior"]),
        "seed": about["seed"],
        "max_seconds": about["max_seconds"],
        "given": given,
        "kept": kept,
        "robust": load_posterior(source / "robust.nc") if "robust.nc" in about["files"] else None,
    }


def _for_parquet(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with levels of groups as JSON where they are of two types: numbers of one factor, text of another.

    A column of Parquet has one type.
    """
    index = table.index.to_frame()
    if "group" not in index or index["group"].map(type).nunique() < 2:
        return table
    index["group"] = [json.dumps(level) for level in index["group"]]
    return table.set_axis(pd.MultiIndex.from_frame(index.rename(columns={"group": _LEVELS})))


def _from_parquet(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table as it was before `_for_parquet`."""
    index = table.index.to_frame()
    if _LEVELS not in index:
        return table
    index[_LEVELS] = pd.Series([json.loads(text) for text in index[_LEVELS]], dtype=object, index=index.index)
    return table.set_axis(pd.MultiIndex.from_frame(index.rename(columns={_LEVELS: "group"})))


def _named(value: Any) -> bool:
    """Whether a role is the name of a column, or several: arrays are given again with the rows."""
    return isinstance(value, str) or (isinstance(value, list | tuple) and all(isinstance(own, str) for own in value))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
