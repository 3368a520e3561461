"""Coresets, draws, certificates, predictions and pages are those recorded; ``python -m tests.golden`` records them."""

from dataclasses import replace

import numpy as np
import pytest

from tests.golden import coresets, fits, predictions, view
from tests.golden.case import STACK, Case, all_cases
from tests.golden.recorded import compared, kept, load, same_text

CASES = all_cases()
# NUTS of PyTensor compiles C for ten seconds and more a model
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name.startswith("draws: nuts") else name for name in CASES]
KNOWN = {file: load(file) for file in {case.file for case in CASES.values()}}
GROUPS = CASES["coresets: uniform, groups, weights and offsets"]

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, used by Dask


def moved_fields(case, found):
    """Return the fields that are not those recorded."""
    lines = compared(case, found, KNOWN[case.file][case.name])
    return {line.removeprefix(f"{case.family}: {case.name}: ").partition(":")[0] for line in lines}


@pytest.mark.essential("every verb, family and source, to 1e-9")
@pytest.mark.parametrize("name", NAMES)
def test_what_was_recorded_is_so_today(name):
    case = CASES[name]
    if case.of_stack and not KNOWN[case.file]:
        pytest.skip(f"nothing is recorded for {STACK}: run python -m tests.golden there; this check did NOT run")
    moved = compared(case, case.fields(), KNOWN[case.file].get(case.name, {}))
    assert not moved, "\n".join(moved)


def test_nothing_recorded_has_lost_its_case():
    for file, cases in KNOWN.items():
        assert set(cases) <= {case.name for case in CASES.values() if case.file == file}


# --- negative controls ------------------------------------------------------------------------------------------------


def test_offsets_moved_by_1_are_noticed():
    """The rows drawn and their weights stay as they are."""
    frame = coresets.GROUPED.assign(o=coresets.GROUPED["o"] + 1.0)
    assert moved_fields(GROUPS, coresets.beside_groups("uniform", frame)) == {"offset"}
    core = fits.offsets()
    moved = view.of_coreset(replace(core, offset=core.offset + 1.0))
    assert [line.partition(" entries")[0] for line in compared(GROUPS, moved, view.of_coreset(core))] == [
        f"{GROUPS.family}: {GROUPS.name}: offset: {len(core)} of {len(core)}"
    ]


def test_permuted_groups_are_noticed():
    levels = sorted(coresets.GROUPED["county"].unique())
    following = dict(zip(levels, [*levels[1:], levels[0]], strict=True))
    frame = coresets.GROUPED.assign(county=coresets.GROUPED["county"].map(following))
    assert moved_fields(GROUPS, coresets.beside_groups("uniform", frame)) == {"group"}
    multilevel = CASES["coresets: multilevel, groups, weights and offsets"]
    # whose rows stand group by group: each group's are another's now
    assert {"X", "weights", "offset"} <= moved_fields(multilevel, coresets.beside_groups("multilevel", frame))


def test_offsets_moved_by_1_are_noticed_in_predictions():
    case = CASES["predictions: rows, offsets, standardized"]
    for by, moved in ((0.0, set()), (1.0, {"table.mean", "table.sd", "table.5%", "table.95%"})):
        frame = predictions.NEW.assign(o=predictions.NEW["o"] + by)
        assert moved_fields(case, predictions.of_rows("offsets", ["x0", "x1", "o"], frame=frame)) == moved


def test_another_seed_and_a_weight_changed_by_1e_5_are_noticed():
    assert {"index", "X"} <= moved_fields(GROUPS, coresets.beside_groups("uniform", coresets.GROUPED, random_state=4))
    found = dict(coresets.beside_groups("uniform", coresets.GROUPED))
    assert moved_fields(GROUPS, found) == set()
    found["weights"] = found["weights"] * (1.0 + 1e-5 * (np.arange(len(found["weights"])) == 7))
    assert moved_fields(GROUPS, found) == {"weights"}


def test_what_moved_and_by_how_much_is_said():
    case = Case("f", "c", dict)
    old = {"x": np.array([1.0, -4.0, 2.0]), "i": np.array([1, 2, 3]), "t": ["a 1.25", "b"], "gone": np.zeros(1)}
    new = {"x": np.array([1.0, -4.0, 2.4]), "i": np.array([1, 5, 4]), "t": ["a 1.25", "c"], "new": np.zeros(1)}
    assert compared(case, new, old) == [
        "f: c: gone: recorded, but not there any more",
        "f: c: x: 1 of 3 entries moved by up to 0.4, 0.1 of the largest entry (allowed 1e-09); at [2]: 2.4, recorded 2",
        "f: c: i: 2 of 3 entries differ, first at [1]: 5, recorded 2",
        "f: c: t: 1 of 2 lines differ, first line 2:\n    now      c\n    recorded b",
        "f: c: new: not recorded",
    ]
    for value in (np.zeros(2), np.array([1.0, np.nan, 2.0]), np.array([1, -4, 2])):
        assert len(compared(case, {"x": value}, {"x": old["x"]})) == 1
    assert not compared(case, {"x": old["x"] * (1.0 + 1e-10)}, {"x": old["x"]})


def test_numbers_in_text_may_round_the_other_way_and_no_more():
    assert same_text("k 0.12 of 1,234 rows, −0.5", "k 0.13 of 1,234 rows, −0.4")
    assert same_text('"mode_error": 2.1e-15', '"mode_error": 3.3e-14')
    assert same_text("0.12345678901234567", "0.12345678901234999")
    assert same_text("off by 9.43e−13 sd, 1.2e−05", "off by 1.1e−12 sd, 1.3e−05")
    for other in ("k 0.14 of 1,234 rows", "k 0.12 of 1,235 rows", "k 0.12 of 1,234 row", "k -0.12 of 1,234 rows"):
        assert not same_text("k 0.12 of 1,234 rows", other)


def test_numbers_in_settings_may_not_round():
    assert same_text('"mode_error": 2.1e-15', '"mode_error": 3.3e-14', rounded=False)
    assert same_text("0.12345678901234567", "0.12345678901234999", rounded=False)
    assert not same_text('"mu": 0.1', '"mu": 0.0', rounded=False)
    case, old, new = Case("f", "c", dict), ['"sd": 4.0'], ['"sd": 4.1']
    assert not compared(case, {"shown": new}, {"shown": old})
    for field in ("about", "corrected about"):
        assert len(compared(case, {field: new}, {field: old})) == 1


def test_a_column_is_compared_at_its_own_scale():
    case, old = Case("f", "c", dict), np.array([[1e3, 1.0, 0.0], [-2e3, 0.5, 0.0]])
    for column, by, noticed in ((0, 1e-8, False), (1, 1e-8, True), (2, 1e-10, False), (2, 1e-8, True)):
        new = old.copy()
        new[1, column] += by
        assert bool(compared(case, {"x": new}, {"x": old})) == noticed


def test_any_entry_of_a_long_array_is_seen():
    case, old = Case("f", "c", dict), np.random.default_rng(0).normal(size=(4, 500, 3))
    assert kept(old).size < 500
    for place in ((0, 1, 0), (1, 302, 2), (3, 499, 1)):
        new = old.copy()
        new[place] += 1e-5
        assert compared(case, {"x": new}, {"x": kept(old)})
    assert compared(case, {"x": old[::-1]}, {"x": kept(old)})
    assert not compared(case, {"x": old * (1.0 + 1e-11)}, {"x": kept(old)})
