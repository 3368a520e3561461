"""A fit in files: read as it was written, and refused where a file was changed."""

import copy
import hashlib
import json
import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore import progress
from bayescore.fitting import files
from bayescore.report.certify import Certificate
from bayescore.validation import DataError, from_json
from tests.fitting.printed import one_line, without_next


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"x": rng.normal(size=3000), "g": rng.choice(list("abcde"), 3000)})
    frame["w"] = rng.uniform(0.5, 1.5, 3000)
    return frame.assign(y=np.where(frame["x"] + rng.logistic(size=3000) > 0, "yes", "no"))


@pytest.fixture(scope="module")
def fit(rows):
    prior = {"x": bc.priors.Laplace(0, 1)}
    return bc.fit("y ~ x + (1 | g)", rows, weights="w", positive="no", prior=prior, random_state=1, progressbar=False)


def test_a_fit_is_read_as_it_was_written(fit, rows, tmp_path):
    fit.save(tmp_path / "model")
    again = bc.read_fit(tmp_path / "model")
    assert without_next(repr(again)) == without_next(repr(fit))
    assert "next: fit.comparisons('x'), fit.check()," in one_line(fit)
    assert "next: fit.predict(rows), fit.report" in one_line(again)
    assert again.story == fit.story
    assert again.prior == fit.prior
    assert again.certificate.risk == fit.certificate.risk
    assert again.certificate.effects.equals(fit.certificate.effects)
    assert np.array_equal(again.idata.posterior["u_g"], fit.idata.posterior["u_g"])
    new = pd.DataFrame({"x": [0.0, 1.0], "g": ["a", "new"]})
    assert again.predict(new).equals(fit.predict(new))
    for answer in (lambda: again.slopes("x"), again.average_predictions, again.check, lambda: again.plot("x")):
        with pytest.raises(ValueError, match=r"read_fit\(folder, data\) .*, or to an answer that takes data=rows"):
            answer()
    for answer in (again.loo, lambda: again.with_prior(None), lambda: again.summary(scale="response")):
        with pytest.raises(ValueError, match=r"give them to the fit, read_fit\(folder, data\) or fit"):
            answer()
    assert len(again.average_predictions(by="g", data=rows)) == 5
    assert again.check(rows)["observed"].equals(fit.check(rows)["observed"])
    with_rows = bc.read_fit(tmp_path / "model", rows)
    assert with_rows.slopes("x").equals(fit.slopes("x"))
    assert with_rows.with_prior(None).level in ("certified", "corrected")


def test_answers_of_a_fit_that_was_read_show_progress_if_asked(fit, rows, tmp_path, monkeypatch):
    fit.save(tmp_path / "model")
    shown, display = [], progress._display
    monkeypatch.setattr(progress, "_display", lambda enabled: (shown.append(enabled), display(enabled))[1])
    for asked in (False, True):
        again = bc.read_fit(tmp_path / "model", rows, **({} if asked else {"progressbar": False}))
        again.slopes("x")
        again.with_prior(None)
        assert shown
        assert set(shown) == {asked}
        shown.clear()


def test_a_file_that_was_changed_is_named(fit, tmp_path):
    fit.save(tmp_path / "model")
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert names == sorted(
        ["coordinates.parquet", "coreset.parquet", "drawn.nc", "effects.parquet", "fit.json", "kept.npz", "used.nc"]
    )
    for name in names:
        path = tmp_path / "model" / name
        whole = path.read_bytes()
        path.write_bytes(whole[:-200] + bytes([whole[-200] ^ 1]) + whole[-199:])
        with pytest.raises(ValueError, match=name):
            bc.read_fit(tmp_path / "model")
        path.write_bytes(whole)
    (tmp_path / "model" / "used.nc").unlink()
    with pytest.raises(ValueError, match=r"used\.nc"):
        bc.read_fit(tmp_path / "model")


def test_a_level_cannot_be_written_in_by_hand(fit, tmp_path):
    fit.save(tmp_path / "model")
    path = tmp_path / "model" / "fit.json"
    about = json.loads(path.read_text())
    about["fit"]["certificate"]["level"] = "certified" if fit.level != "certified" else "corrected"
    path.write_text(json.dumps(about, indent=1))
    with pytest.raises(ValueError, match=r"fit\.json.*changed"):
        bc.read_fit(tmp_path / "model")


def test_a_folder_is_written_whole_or_not_at_all(fit, tmp_path, monkeypatch):
    fit.save(tmp_path / "model")
    before = (tmp_path / "model" / "fit.json").read_bytes()

    def fails(*_):
        raise OSError("no space is left")

    monkeypatch.setattr(files, "write_posterior", fails)
    with pytest.raises(OSError, match="no space"):
        fit.save(tmp_path / "model")
    with pytest.raises(OSError, match="no space"):
        fit.save(tmp_path / "other")
    assert (tmp_path / "model" / "fit.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_other_folders_are_left_alone(fit, tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("dear")
    with pytest.raises(FileExistsError, match="letters"):
        fit.save(tmp_path / "letters")
    with pytest.raises(FileNotFoundError, match="absent"):
        fit.save(tmp_path / "absent" / "model")
    with pytest.raises(FileNotFoundError, match="holds no fit"):
        bc.read_fit(tmp_path / "letters")


def test_a_format_of_another_version_is_said(fit, tmp_path, monkeypatch):
    known = files.FORMAT
    monkeypatch.setattr(files, "FORMAT", known + 1)
    fit.save(tmp_path / "model")
    monkeypatch.undo()
    with pytest.raises(ValueError, match=f"fit format {known + 1}; this version reads {known}"):
        bc.read_fit(tmp_path / "model")


def interrupted(monkeypatch, at, act):
    """Let the renames of a save go on to the one numbered `at`, which is made, and then act."""
    rename, count = os.replace, [0]

    def replace(old, new):
        rename(old, new)
        if not str(old).endswith(".part") or os.path.isdir(new):  # of folders
            count[0] += os.path.isdir(new)
            if count[0] == at:
                act()

    monkeypatch.setattr(files.os, "replace", replace)


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
def test_a_save_that_is_interrupted_leaves_a_fit(fit, tmp_path, monkeypatch, at, error):
    fit.save(tmp_path / "model")

    def act():
        raise error

    with monkeypatch.context() as patch:
        interrupted(patch, at, act)
        with pytest.raises(error):
            fit.save(tmp_path / "model")
    assert without_next(repr(bc.read_fit(tmp_path / "model"))) == without_next(repr(fit))
    fit.save(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("at", [1, 2])
def test_a_save_that_is_killed_leaves_a_fit_which_the_next_one_cleans_up(fit, tmp_path, monkeypatch, at):
    fit.save(tmp_path / "model")
    with monkeypatch.context() as patch:
        interrupted(patch, at, lambda: os.kill(os.getpid(), signal.SIGKILL))
        if (child := os.fork()) == 0:
            try:
                fit.save(tmp_path / "model")
            finally:
                os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2
    assert without_next(repr(bc.read_fit(tmp_path / "model"))) == without_next(repr(fit))
    fit.save(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("size", [2_000, 20_000, 60_000])
def test_a_disk_that_is_full_is_said_and_nothing_breaks(fit, tmp_path, size):
    """A limit of the size of files stands for the disk: HDF5, which writes by itself, would not come back from it."""
    resource = pytest.importorskip("resource")
    fit.save(tmp_path / "model")
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    for _ in range(2):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, usual[1]))
        try:
            with pytest.raises(OSError, match=r"(?i)too large|no space"):
                fit.save(tmp_path / "model")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert without_next(repr(bc.read_fit(tmp_path / "model"))) == without_next(repr(fit))
    fit.save(tmp_path / "model")


def test_no_space_is_said_in_words(fit, tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(files.errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "write_posterior", fails)
    with pytest.raises(OSError, match=r"folder='.*model' is not written: no space is left on its disk"):
        fit.save(tmp_path / "model")


def fields_of(value, path=()):
    """Yield the places of all fields below a value."""
    for key, own in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from fields_of(own, (*path, key))


OTHERS = (None, "x", -1, 1.5, True, [], {}, 10**400, "\\ud800", "gone")


def altered(whole, place, value):
    """Return what `fit.json` holds with another value of a field."""
    about = at = copy.deepcopy(whole)
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    if value == "gone":
        del at[place[-1]]
    return about


def write_about(path, about):
    """Write `fit.json` with the digest of what it holds, as whoever alters it can."""
    digest = hashlib.sha256(json.dumps(about, indent=1).encode()).hexdigest()
    path.write_text(json.dumps({"sha256": digest, "fit": about}, indent=1))


def refusal(about, tables):
    """Return the error of reading what `fit.json` holds; empty where it is read."""
    try:
        found = files._Metadata.of(about)
        from_json(Certificate, found.certificate, "certificate", remedy=found.remedy, **tables)
    except DataError as error:
        return str(error)
    return ""


def test_altered_fields_are_named(fit, tmp_path):
    fit.save(tmp_path / "model")
    path = tmp_path / "model" / "fit.json"
    whole = json.loads(path.read_text())["fit"]
    tables = {"coordinates": fit.certificate.coordinates, "effects": fit.certificate.effects}
    said = {
        (place, str(value)): refusal(altered(whole, place, value), tables)
        for place in fields_of(whole)
        for value in OTHERS
    }
    assert not refusal(whole, tables)
    assert all(str(place[0]) in text for (place, _), text in said.items() if text)
    assert sum(map(bool, said.values())) > 0.75 * len(said)  # others are possible values: words, names of columns
    for place, value in ((("seed",), "x"), (("story", 0, "rows"), None), (("certificate", "n_draws"), "gone")):
        write_about(path, altered(whole, place, value))
        if value == "gone":  # has a default
            assert bc.read_fit(tmp_path / "model").level == fit.level
            continue
        with pytest.raises(DataError, match=rf"fit\.json.*{place[0]}.* expected"):
            bc.read_fit(tmp_path / "model")


def test_draws_of_another_fit_are_refused(fit, rows, tmp_path):
    other = bc.fit("y ~ I(x**2)", rows, random_state=1, progressbar=False)
    fit.save(tmp_path / "model")
    other.save(tmp_path / "other")
    (tmp_path / "other" / "drawn.nc").replace(tmp_path / "model" / "drawn.nc")
    path = tmp_path / "model" / "fit.json"
    about = json.loads(path.read_text())["fit"]
    about["files"]["drawn.nc"] = hashlib.sha256((tmp_path / "model" / "drawn.nc").read_bytes()).hexdigest()
    write_about(path, about)
    with pytest.raises(DataError, match="draws of other coefficients"):
        bc.read_fit(tmp_path / "model")


def test_a_folder_that_cannot_be_written_is_named_before_work(fit, tmp_path, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "touch", refused)  # root may write anywhere
    with pytest.raises(PermissionError, match=r"folder='.*model' cannot be written: Permission denied; choose another"):
        fit.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())
