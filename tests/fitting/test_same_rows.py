"""Rows that a fit is given again: those of the fit are taken, in any form, and others refused."""

import numpy as np
import pandas as pd
import pytest

import bayescore as bc

QUIET = {"random_state": 1, "progressbar": False}


def made(n=4000):
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"x": rng.normal(40.0, 5.0, n), "z": rng.normal(size=n), "d": rng.integers(0, 30, n)})
    effect = rng.normal(size=30)[rows["d"]]
    rows["d"] = "g" + rows["d"].astype(str)
    rows["y"] = 0.1 * (rows["x"] - 40.0) + rows["z"] + effect + rng.logistic(size=n) > 0
    rows["k"] = rng.poisson(np.exp(0.1 * (rows["x"] - 40.0) + 0.5 * effect))
    rows["v"] = rows["z"] + rng.normal(size=n)
    return rows.assign(w=rng.uniform(0.5, 1.5, n))


@pytest.fixture(scope="module")
def rows():
    return made()


MODELS = {
    "labels": ("y ~ x + z", {}),
    "weighted": ("y ~ x + z", {"weights": "w"}),
    "groups": ("y ~ x + z + (1 | d)", {}),
    "counts": ("k ~ x + z", {"family": "poisson"}),
    "counts by group": ("k ~ x + z + (1 | d)", {"family": "poisson"}),
    "numbers": ("v ~ x + z", {"family": "normal"}),
    "sums": ("y ~ d", {}),
}


@pytest.fixture(scope="module")
def plain(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain") / "model"
    bc.fit("y ~ x + z", rows, **QUIET).save(folder)
    return folder


@pytest.fixture(scope="module", params=list(MODELS))
def saved(request, rows, tmp_path_factory):
    formula, beside = MODELS[request.param]
    folder = tmp_path_factory.mktemp("fits") / "model"
    bc.fit(formula, rows, **beside, **QUIET).save(folder)
    return folder, formula.split()[0]


def flipped(rows, label):
    own = rows[label]
    return rows.assign(**{label: ~own if own.dtype == bool else own.max() - own if label == "k" else -own})


def test_the_rows_of_the_fit_are_taken_in_any_form(saved, rows, tmp_path):
    polars = pytest.importorskip("polars")
    folder, _ = saved
    shuffled = rows.sample(frac=1.0, random_state=5)
    shuffled.to_parquet(tmp_path / "rows.parquet", row_group_size=700)
    small = shuffled.astype({"x": np.float32, "z": np.float32, "w": np.float32})
    for own in (rows, shuffled, small, polars.from_pandas(rows), tmp_path / "rows.parquet"):
        found = bc.read_fit(folder, own, progressbar=False)
        assert found._rows_given.known
    wrong = bc.read_fit(folder, str(tmp_path / "rows.parquet"), progressbar=False)
    assert not wrong._given.known  # a file waits for the first answer
    assert wrong._rows_given.known
    assert wrong._rows_given is wrong._rows_given  # checked by one pass


def test_other_rows_are_refused(saved, rows, tmp_path):
    folder, label = saved
    with pytest.raises(ValueError, match="the fit was made of"):
        bc.read_fit(folder, pd.concat([rows, rows[:1500]]), progressbar=False)
    with pytest.raises(ValueError, match="give the rows that the fit was made of"):
        bc.read_fit(folder, flipped(rows, label), progressbar=False)
    flipped(rows, label).to_parquet(tmp_path / "rows.parquet")
    lazy = bc.read_fit(folder, tmp_path / "rows.parquet", progressbar=False)
    for answer in (lambda: lazy.with_prior(None), lambda: lazy.average_predictions(), lazy.loo):
        with pytest.raises(ValueError, match="give the rows that the fit was made of"):
            answer()


def test_one_label_that_is_another_is_met(rows, plain):
    other = rows.copy()
    other.loc[17, "y"] = not other.loc[17, "y"]
    with pytest.raises(ValueError, match=r"score of .* is off by .* sds \(limit 0\.01\)"):
        bc.read_fit(plain, other, progressbar=False)


def test_labels_of_other_rows_are_met(rows, plain):
    """As many of each label, in other rows: their sums alone would not tell."""
    other = rows.assign(y=rows["y"].sample(frac=1.0, random_state=1).to_numpy())
    with pytest.raises(ValueError, match="other labels or columns"):
        bc.read_fit(plain, other, progressbar=False)


def test_a_fit_that_was_updated_knows_all_its_rows(rows, tmp_path):
    bc.fit("y ~ x + z", rows[:2000], **QUIET).update(rows[2000:], progressbar=False).save(tmp_path / "model")
    assert bc.read_fit(tmp_path / "model", rows, progressbar=False)._given.known
    with pytest.raises(ValueError, match=r"limit 0\.5"):
        bc.read_fit(tmp_path / "model", flipped(rows, "y"), progressbar=False)
    with pytest.raises(ValueError, match="data has 2,000 rows, and the fit was made of 4,000"):
        bc.read_fit(tmp_path / "model", rows[:2000], progressbar=False)
