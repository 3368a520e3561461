"""Fixtures that every room's tests share."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from bayescore.types import WeightedData
from tests.false_alarms import RATES, stated_rates
from tests.seeds import VARIABLE, shift, shift_seeds

shift_seeds(shift())  # before test modules draw anything at import

mpl.use("Agg")

pytest_plugins = ["pytester", "tests.durations", "tests.known_posteriors"]

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "data"


def pytest_sessionstart(session):
    """Say which tests run under shifted seeds, also under -q, which has no header; workers of xdist say nothing."""
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    if shift() and reporter:
        reporter.write_line(f"{VARIABLE}={shift()}: only statistical tests run, with seeds shifted by {shift()}")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by -m and -k
def pytest_collection_modifyitems(config, items):
    """Add up the stated false-alarm rates; under shifted seeds leave out all tests but the statistical ones."""
    config.stash[RATES] = stated_rates(items)
    if shift():  # the others pin values
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in config.stash[RATES]])
        items[:] = [item for item in items if item.nodeid in config.stash[RATES]]


@pytest.fixture
def shared_data():
    """Path of a published data set kept beside the project; where it is absent the test says so and is skipped."""

    def path(name: str) -> Path:
        found = SHARED / name
        if not found.is_file():
            pytest.skip(f"published data {name} not found in ../shared/data: this check did NOT run")
        return found

    return path


def make_rows(n=60, n_features=3, seed=0, weights=True, scale=1.0, rng=None):
    """Return small weighted rows drawn from a logistic model, by `rng` where it is given."""
    rng = np.random.default_rng(seed) if rng is None else rng
    X = np.column_stack([np.ones(n), rng.normal(size=(n, n_features - 1)) * scale])
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-X @ rng.normal(size=n_features))), 1, -1).astype(np.int8)
    w = rng.uniform(0.05, 20.0, n) if weights else np.ones(n)
    return WeightedData(X, y, w, np.arange(n))


@pytest.fixture
def rows():
    """Sixty weighted rows of three columns."""
    return make_rows()
