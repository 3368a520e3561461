"""Wrong rows, priors, checkpoints and seeds are noticed by the golden cases of fits, streams, sources and commands."""

import pytest

from tests.golden import command_line, fits, later, pupils, sources, streams, view_fits
from tests.golden.case import Case, all_cases
from tests.golden.recorded import compared, load

CASES = all_cases()

pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, used by Dask


def moved(name, make):
    """Return what of a case is not as recorded if `make` takes its place, by field; skip where nothing is recorded."""
    case = CASES[name]
    recorded = load(case.file)
    if not recorded:
        pytest.skip(f"nothing is recorded in {case.file}: run python -m tests.golden here; this check did NOT run")
    wrong = Case(case.family, case.name, make, case.tolerance, case.of_stack)
    lines = compared(case, wrong.fields(), recorded[case.name])
    return dict(line.removeprefix(f"{case.family}: {case.name}: ").split(": ", 1) for line in lines)


# --- streams ----------------------------------------------------------------------------------------------------------


def resumed_after(parts, onwards, name):
    """Return what is seen of a stream that was saved after some parts of 7, and goes on with those from `onwards`."""

    def make(name, random_state):
        some = streams.blocks(name)
        stream = streams.through_a_file(streams.fed(streams.empty(name, random_state), some[:parts]))
        return streams.fed(stream, some[onwards:]).coreset()

    return lambda: streams.against_the_whole(make, name)


@pytest.mark.parametrize("name", ["online", "aggregate, numbers"])
def test_a_stream_resumed_from_an_earlier_checkpoint_or_without_a_part_is_noticed(name):
    resumed = f"streams: {name}, resumed"
    assert moved(resumed, resumed_after(3, 3, name)) == {}
    earlier, lacking = (moved(resumed, resumed_after(*each, name)) for each in ((2, 3), (3, 4)))
    for found in (earlier, lacking):
        assert found.keys() == {"weights", "unlike the uninterrupted"}
    unlike = streams_unlike(resumed_after(2, 3, name))
    assert {"X", "about", "shown", "weights"} <= unlike


def streams_unlike(make):
    """Return the fields that are not those of the uninterrupted stream."""
    lines = make()["unlike the uninterrupted"]
    return {line.split(": ")[2] for line in lines}


# --- sources ----------------------------------------------------------------------------------------------------------


def test_a_folder_of_parquet_with_permuted_groups_is_noticed():
    levels = sorted(pupils.FIRST["school"].unique())
    following = dict(zip(levels, [*levels[1:], levels[0]], strict=True))
    part = pupils.FIRST.index >= 800  # of the last file alone
    wrong = pupils.FIRST.assign(school=pupils.FIRST["school"].where(~part, pupils.FIRST["school"].map(following)))
    name = "(1 | school)"
    found = moved(
        f"sources: {name}, folder of Parquet", lambda: sources.against_the_frame("folder of Parquet", name, wrong)
    )
    assert found.keys() == {"means and sds", "unlike the frame"}
    assert "entries moved by up to" in found["means and sds"]
    assert "lines differ, first line 1" in found["unlike the frame"]


# --- fits -------------------------------------------------------------------------------------------------------------

SUMMARY = {"summary", "coordinates", "certificate about"}


def test_an_update_by_rows_whose_offset_is_1_more_is_noticed():
    name, (_, more) = "weights and offset", later.parts("weights and offset")
    for by, fields in ((0.0, set()), (1.0, SUMMARY)):
        rows = more.assign(known=more["known"] + by)
        found = moved(
            f"later: update, {name}", lambda rows=rows: view_fits.of_fit(later.first(name).update(rows, **fits.QUIET))
        )
        assert found.keys() >= fields
        assert bool(found) == bool(by)
    assert found.keys() == SUMMARY | {"story"}
    assert "entries moved by up to" in found["summary"]


def test_another_prior_is_noticed():
    case = "later: with_prior, flat, by name"
    found = moved(case, lambda: later.of_prior("flat", "student_t"))
    assert found.keys() >= SUMMARY | {"priors labels", "settings"}
    assert "Normal" in found["priors labels"]
    assert moved(case, lambda: later.of_prior("flat", "by name")) == {}


def test_clusters_without_their_strata_are_noticed():
    found = moved("later: cluster_robust, strata, flat", lambda: later.of_robust("flat"))
    # the certificate is of the model's own posterior
    assert found.keys() == {"summary", "summary labels", "settings", "story", "predicted", "predicted labels"}
    assert "in 3 strata of 'region'" in found["settings"]


def test_the_folder_of_the_fit_before_an_update_is_noticed():
    found = moved("later: read_fit, updated", lambda: later.through_a_folder("flat"))
    assert found.keys() == {"predicted"}  # and nothing is unlike the fit that was saved


# --- the command line -------------------------------------------------------------------------------------------------


def test_another_seed_on_the_command_line_is_noticed():
    name = "sample, another sampler and prior"
    (words,) = command_line.GOOD[name]
    for more, fields in (("", set()), (" --seed 5", {"printed", "other.nc beta"})):
        found = moved(f"command_line: {name}", lambda more=more: command_line.after(f"bayescore {words}{more}"))
        assert found.keys() == fields
    name = "build, uniform, standardized"
    (words,) = command_line.GOOD[name]
    found = moved(f"command_line: {name}", lambda: command_line.after(f"bayescore {words} --seed 5"))
    assert found.keys() == {"printed", "core.2.parquet index"}


def test_another_exit_status_is_noticed():
    found = moved("command_line: errors of demo", lambda: command_line.after("bayescore demo --rows 10 -o made"))
    assert found.keys() == {"printed"}
    right = command_line.after("bayescore demo --rows 10 -o made")
    wrong = {**right, "printed": [line.replace("status 2", "status 1") for line in right["printed"]]}
    case = Case("command_line", "demo", dict)
    assert compared(case, wrong, right) == [
        "command_line: demo: printed: 1 of 3 lines differ, first line 2:\n    now      status 1\n    recorded status 2"
    ]
