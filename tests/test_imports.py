"""What is slow to import is not imported before it is needed."""

import subprocess
import sys

import pytest

import bayescore as bc
from bayescore import compat

SLOW = ("arviz", "matplotlib", "pymc", "pytensor", "xarray")


@pytest.mark.parametrize(
    "work",
    [
        "import bayescore",
        "from bayescore.cli import parser; parser()",
        "import bayescore as bc; bc.build_coreset; bc.find_map; bc.read_coreset; bc.StreamingCoreset",
        "import bayescore as bc; bc.priors.Normal(); bc.methods.Calibrated; bc.datasets.binary5",
    ],
)
def test_neither_plots_nor_pymc_are_imported_to_begin_with(work):
    code = f"{work}\nimport sys\nprint(*sorted({set(SLOW)} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_the_check_notices_what_is_imported():
    assert imported("bc.certify") == ["xarray"]


FIT = "fit = bc.fit(np.arange(400.0)[:, None], np.arange(400) % 3 == 0, random_state=1, progressbar=False)"


@pytest.mark.parametrize("then", ["fit", "fit.summary()", "repr(fit)", "fit.save('model')"])
def test_a_fit_imports_neither_arviz_nor_plots(then, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert imported(f"{FIT}; {then}") == ["xarray"]


def test_draws_that_are_handed_over_are_the_installed_arvizs():
    assert ("arviz" in imported(f"{FIT}; fit.idata")) != compat.ARVIZ_1


def imported(work):
    """Return what is slow to import and was imported for some work."""
    code = f"import numpy as np, bayescore as bc; {work}\nimport sys\nprint(*sorted({set(SLOW)} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return found.stdout.split()


def test_names_are_those_of_the_stub_and_of_no_others():
    assert {"build_coreset", "families", "priors", "methods", "datasets", "papers"} <= set(dir(bc))
    assert "Normal" not in dir(bc)
    with pytest.raises(AttributeError, match="No bayescore attribute Normal"):
        _ = bc.Normal
