"""A fit as a folder: `Fit.save` and `read_fit`.

=====================  =============================================================================
coreset.parquet        the coreset, as `Coreset.save` writes it
drawn.nc, used.nc      the draws, and the certificate's corrected ones if there are any (netCDF)
coordinates.parquet    the certificate's tables
effects.parquet
robust.nc              draws with cluster-robust spread, if there are any
kept.npz               what updates need of the rows: sums and a sample of them
fit.json               format, story, prior, roles, the certificate's figures, SHA-256 of all files
=====================  =============================================================================

The folder is written under another name, `fit.json` last, and renamed once it is complete. An earlier fit is renamed
before it, and removed after: at any moment one of the two is whole, and where the process ended between the renames it
is read under the other name. Reading runs no code: Parquet, netCDF and JSON hold values.
"""

import errno
import glob
import hashlib
import json
import os
import reprlib
import shutil
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bayescore.data.coreset import read_coreset
from bayescore.data.roles import ROLES
from bayescore.diagnostics.results import CertificateData, Level, Remedy
from bayescore.files import check_path, check_writable, is_alive, no_space, read_checkpoint, write_checkpoint
from bayescore.fitting.earlier import EarlierRows, kept_from_arrays, kept_to_arrays
from bayescore.fitting.route import FitOptions, Step, rows_like
from bayescore.priors.by_name import given_from_dict, given_to_dict
from bayescore.report.certify import Certificate
from bayescore.samplers.posterior import load_posterior, read_posterior, write_posterior
from bayescore.tables import Table
from bayescore.validation import DataError, from_json, json_object

if TYPE_CHECKING:
    from bayescore.fitting.result import Fit

FORMAT = 3
ABOUT = "fit.json"
_TABLES = ("coordinates", "effects")
_LEVELS = "group, JSON"
_KEPT = "kept.npz"
_DRAWS = ("drawn.nc", "used.nc", "robust.nc")
_NEW, _OLD = "part", "old"  # ends of the names of folders that a save has not done with
_FILES = {ABOUT, "coreset.parquet", _KEPT, *_DRAWS, *(f"{name}.parquet" for name in _TABLES)}
_ALWAYS = {"coreset.parquet", "drawn.nc", *(f"{name}.parquet" for name in _TABLES)}


def save_fit(fit: "Fit", folder: str | Path) -> None:
    """Write a fit to a folder, whole or not at all; one that holds an earlier fit is replaced."""
    target = check_folder(folder)
    partial, old = (target.with_name(f".{target.name}.{os.getpid()}.{kind}") for kind in (_NEW, _OLD))
    shutil.rmtree(partial, ignore_errors=True)
    if target.exists():
        shutil.rmtree(old, ignore_errors=True)
    try:
        partial.mkdir()
        _write(fit, partial)
        for path in partial.iterdir():  # on the disk before the folder gets its name
            with path.open("r+b") as written:
                os.fsync(written.fileno())
        if target.exists():
            os.replace(target, old)
        os.replace(partial, target)
    except BaseException as error:
        if old.exists() and not target.exists():
            os.replace(old, target)
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise no_space(error, folder, "folder") from error
        raise
    for other in _unfinished_saves(target):
        if other == old or not is_alive(other.suffixes[-2][1:]):
            shutil.rmtree(other, ignore_errors=True)


def _unfinished_saves(target: Path) -> list[Path]:
    """Return the folders of saves to a target that have not ended, a new fit before the earlier one."""
    names = (f".{glob.escape(target.name)}.*.{kind}" for kind in (_NEW, _OLD))
    return [path for name in names for path in sorted(target.parent.glob(name))]


def _complete_folder(folder: Path) -> Path:
    """Return the folder that holds a whole fit: if a save ended between its renames, that of the new or the old fit."""
    if folder.exists():
        return folder
    return next((path for path in _unfinished_saves(folder.absolute()) if (path / ABOUT).is_file()), folder)


def check_folder(folder: str | Path, name: str = "folder") -> Path:
    """Return the folder if a fit can be written there: it is new or empty, or holds a fit."""
    target = check_path(folder, name).absolute()
    if not target.name or target == Path.cwd():
        raise FileExistsError(f"{name}={str(folder)!r} is the folder you are in; name a new one")
    present = {path.name for path in target.iterdir()} if target.is_dir() else set()
    if (target.exists() and not target.is_dir()) or (present and ABOUT not in present):
        raise FileExistsError(f"{name}={str(target)!r} exists and holds no fit; name a new folder")
    if others := sorted(present - _FILES):
        raise FileExistsError(
            f"{name}={str(target)!r} has {others[0]!r} beside a fit, which would be lost; move it away"
        )
    check_writable(target, name)
    return target


def _write(fit: "Fit", folder: Path) -> None:
    fit.coreset.save(folder / "coreset.parquet")
    write_posterior(fit._drawn, folder / "drawn.nc")
    certificate_of_fit = fit.certificate
    if certificate_of_fit._idata is not None:
        write_posterior(certificate_of_fit._idata, folder / "used.nc")
    if fit._robust is not None:
        write_posterior(fit._robust, folder / "robust.nc")
    for name in _TABLES:
        _for_parquet(getattr(certificate_of_fit, name)).to_parquet(folder / f"{name}.parquet")
    if fit._kept:
        write_checkpoint(folder / _KEPT, EarlierRows.__name__, {}, kept_to_arrays(fit._kept))
    plain = [field.name for field in fields(CertificateData) if field.name not in (*_TABLES, "idata", "remedy")]
    certificate = {name: getattr(certificate_of_fit, name) for name in plain}
    if certificate_of_fit.dispersion is not None:
        certificate["dispersion"] = vars(certificate_of_fit.dispersion)
    remedy = certificate_of_fit.remedy
    given = fit._given
    roles = {} if given is None else {name: value for name, value in given.roles.items() if _names_columns(value)}
    about = {
        "format": FORMAT,
        "version": version("bayescore"),
        "level": fit.level,
        "story": [asdict(step) for step in fit.story],
        "prior": None if fit.prior is None else given_to_dict(fit.prior),
        "seed": fit._seed,
        "max_seconds": fit._max_seconds,
        "options": asdict(fit._options),
        "roles": roles,
        "arrays": [] if given is None else sorted(set(given.roles) - set(roles)),
        "certificate": {**certificate, "level": str(certificate_of_fit.level)},
        "remedy": None if remedy is None else {**vars(remedy), "need": str(remedy.need)},
        **({} if (ordered := getattr(fit, "ordered", None)) is None else {"ordered": asdict(ordered)}),
        "files": {path.name: _sha256(path.read_bytes()) for path in sorted(folder.iterdir())},
    }
    text = json.dumps(about, indent=1)
    (folder / ABOUT).write_text(json.dumps({"sha256": _sha256(text.encode()), "fit": about}, indent=1), "utf-8")


def read_parts(folder: str | Path, data: Any, y: Any, *, progressbar: bool) -> dict[str, Any]:
    """Return the fields of the fit that `save_fit` wrote; raise `DataError` naming a file that was changed since."""
    source = _complete_folder(check_path(folder, "folder"))
    if not (source / ABOUT).is_file():
        raise FileNotFoundError(f"folder={str(source)!r} holds no fit: there is no {ABOUT} in it")
    about_file = repr(str(source / ABOUT))
    changed = f"{about_file} was changed after bayescore wrote it, or is damaged; fit again"
    whole = json_object((source / ABOUT).read_bytes(), changed)
    stored = whole.get("fit")
    if not isinstance(stored, dict):
        raise DataError(changed)
    if stored.get("format") != FORMAT:
        raise DataError(
            f"{str(source)!r} has fit format {stored.get('format')!r}; this version reads {FORMAT}; fit again"
        )
    if _sha256(json.dumps(stored, indent=1).encode()) != whole.get("sha256"):
        raise DataError(changed)
    foreign = f"{about_file} was not written by bayescore, or by another version"
    try:
        about = _Metadata.of(stored)
    except DataError as error:
        raise DataError(f"{foreign}: {error}; fit again") from None
    for name, digest in about.files.items():
        path = source / name
        if not path.is_file() or _sha256(path.read_bytes()) != digest:
            raise DataError(f"{str(path)!r} was changed after bayescore wrote it, or is damaged or gone; fit again")
    core, drawn = read_coreset(source / "coreset.parquet"), load_posterior(source / "drawn.nc")
    more: dict[str, Any] = {name: _read_table(source / f"{name}.parquet") for name in _TABLES}
    more |= {"remedy": about.remedy}
    if "used.nc" in about.files:
        more["idata"] = load_posterior(source / "used.nc")
    try:
        certificate = from_json(Certificate, about.certificate, "certificate", **more)
        _ = repr(certificate)  # figures out of their range cannot be told
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise DataError(f"{foreign}: {error}; fit again") from None
    if read_posterior(drawn, "drawn").features != core.feature_names:
        raise DataError(f"{str(source)!r} has draws of other coefficients than its coreset's; fit again")
    kept: tuple[EarlierRows, ...] = ()
    if _KEPT in about.files:
        kept = kept_from_arrays(read_checkpoint(source / _KEPT, EarlierRows.__name__)[1], core)
    given, ordered = None, None
    if about.ordered is not None:
        from bayescore.data.steps import Ordered  # of ordered categories alone

        ordered = from_json(Ordered, about.ordered, "ordered")
    if data is not None:
        if about.arrays:
            raise DataError(
                f"data is given, and the fit was made with {' and '.join(about.arrays)} as arrays, which it did not "
                "keep: fit rows that have columns of them, or leave data out"
            )
        if ordered is not None:
            data, y = ordered.steps(data, y), None
        given = rows_like(core, data, y, roles=about.roles, progressbar=progressbar, known=False)
    return {
        "coreset": core,
        "_drawn": drawn,
        "certificate": certificate,
        "story": tuple(about.story),
        "prior": about.given_prior,
        "_seed": about.seed,
        "_max_seconds": about.max_seconds,
        "_options": about.fit_options,
        "_given": given,
        "_kept": kept,
        "ordered": ordered,
        "_robust": load_posterior(source / "robust.nc") if "robust.nc" in about.files else None,
    }


@dataclass(frozen=True)
class _Metadata:
    """What `fit.json` holds, each field of the kind that reading needs."""

    format: int
    version: str
    level: Level
    story: list[Step]
    prior: dict[str, Any] | None
    seed: int
    max_seconds: float
    roles: dict[str, str | list[str]]
    arrays: list[str]
    certificate: dict[str, Any]
    remedy: Remedy | None
    files: dict[str, str]
    options: dict[str, Any]
    ordered: dict[str, Any] | None = None  # of a fit of ordered categories

    @classmethod
    def of(cls, stored: dict[str, Any]) -> "_Metadata":
        """Return the fields; raise `DataError` naming the first that is not what it should be."""
        about: _Metadata = from_json(cls, stored, "fit")
        if about.certificate.get("level") != about.level:
            raise DataError(f"level is {about.level!r}, and certificate['level'] {about.certificate.get('level')!r}")
        if not about.max_seconds > 0.0:
            raise DataError(f"max_seconds is {about.max_seconds!r}; a positive number was expected")
        if unknown := sorted({*about.roles, *about.arrays} - {*ROLES}):
            raise DataError(f"roles has {unknown[0]!r}, which is no role of a column")
        if unknown := sorted({*about.files} - _FILES):
            raise DataError(f"files has {unknown[0]!r}, which is no file of a fit")
        if absent := sorted(_ALWAYS - {*about.files}):
            raise DataError(f"files lacks {absent[0]!r}")
        _ = about.given_prior, about.fit_options
        return about

    @property
    def fit_options(self) -> FitOptions:
        """The options as they were given."""
        try:
            return FitOptions(**self.options)
        except (TypeError, ValueError) as error:
            raise DataError(f"options is {reprlib.repr(self.options)}, which are not those of fit: {error}") from None

    @property
    def given_prior(self) -> Any:
        """The prior as it was given."""
        try:
            return None if self.prior is None else given_from_dict(self.prior)
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"prior is {reprlib.repr(self.prior)}, which is not a prior: {error}") from None


def _read_table(path: Path) -> pd.DataFrame:
    try:
        return Table(_from_parquet(pd.read_parquet(path)))
    except (LookupError, TypeError, ValueError, OSError) as error:
        raise DataError(f"{str(path)!r} is no table of a certificate: {error}; fit again") from None


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


def _names_columns(value: Any) -> bool:
    """Whether a role is the name of a column, or several: arrays are given again with the rows."""
    return isinstance(value, str) or (isinstance(value, list | tuple) and all(isinstance(name, str) for name in value))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
