"""Tables of a fit stand whole in a terminal of 80 columns, and lose no digit."""

import os
import pickle

import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.fitting.parts import ShortTable


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.normal(45, 12, 5000), "device": rng.choice(["phone", "tablet", "pc"], 5000)})
    rows["clicked"] = 0.05 * (rows["age"] - 45) + (rows["device"] == "tablet") + rng.logistic(size=5000) > 0
    return bc.fit("clicked ~ age + device", rows, random_state=1, progressbar=False)


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    """Make pandas lay out for a terminal of 80 columns: there it leaves out columns that do not fit."""
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_: os.terminal_size((80, 24)))
    with pd.option_context("display.max_columns", 0, "display.width", 80):
        yield


def test_the_default_summary_stands_whole_in_80_columns(fit):
    table = fit.summary()
    lines = repr(table).splitlines()
    assert len(lines) == 2 + len(table)
    assert max(map(len, lines)) <= 80
    assert all(column in lines[0] for column in table)
    assert "..." in repr(pd.DataFrame(table))  # the negative control


def test_a_wide_table_goes_on_below_and_leaves_out_nothing(fit):
    table = ShortTable(fit.summary().rename(index=lambda name: f"{name} of those who came again"))
    assert "..." not in repr(table)
    assert all(column in repr(table) for column in table)


def test_values_keep_their_digits_and_what_is_made_of_them_is_plain(fit):
    table = fit.summary()
    assert table["mean"]["age"] != float(f"{table['mean']['age']:.4g}")
    assert type(table.round(3)) is pd.DataFrame
    assert type(table.loc[["age"]]) is pd.DataFrame
    again = pickle.loads(pickle.dumps(table))
    assert again.attrs["level"] == fit.level
    assert (again == table).all(axis=None)


def test_a_format_of_the_user_s_own_is_kept(fit):
    with pd.option_context("display.float_format", "{:.1f}!".format):
        assert "0.1!" in repr(fit.summary())
    assert pd.get_option("display.float_format") is None


def test_html_is_short_too(fit):
    html = fit.summary()._repr_html_()
    assert f"{fit.summary()['mean']['age']:.4g}</td>" in html
