"""Coresets, draws, certificates, predictions and pages are those recorded; `python -m tests.golden` records them."""

from dataclasses import replace

import numpy as np
import pytest

from tests.golden import coresets, recorded, rows, view
from tests.golden.case import STACK, all_cases
from tests.golden.recorded import compared, load

CASES = all_cases()
# dask uses what pandas calls outdated
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")


@pytest.fixture(scope="module")
def known():
    """Fields recorded, by file and name; None for a stack on which nothing was recorded."""
    return {file: load(file) or None for file in {case.file for case in CASES.values()}}


@pytest.mark.parametrize("name", CASES)
def test_what_was_recorded_is_so_today(name, known):
    case = CASES[name]
    if known[case.file] is None:
        pytest.skip(f"nothing is recorded for {STACK}: run python -m tests.golden there")
    moved = compared(case, case.fields(), known[case.file].get(case.name, {}))
    assert not moved, "\n".join(moved)


def test_nothing_recorded_has_lost_its_case(known):
    for file, cases in known.items():
        assert set(cases or ()) <= {case.name for case in CASES.values() if case.file == file}
