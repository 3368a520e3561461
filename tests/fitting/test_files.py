"""A fit in files: read as it was written, and refused where a file was changed."""

import json

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore import progress
from bayescore.fitting import files


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
    assert repr(again) == repr(fit)
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
    monkeypatch.setattr(files, "FORMAT", 2)
    fit.save(tmp_path / "model")
    monkeypatch.undo()
    with pytest.raises(ValueError, match="fit format 2; this version reads 1"):
        bc.read_fit(tmp_path / "model")
