"""What a line of progress says of a step."""

import numba

from bayescore import progress
from bayescore.compiled import compile_seconds


def test_a_step_can_change_its_description():
    with progress.step(False, "build") as describe:
        describe("build, compiling")
        assert [task.description for task in progress._STEP.get().tasks] == ["build, compiling"]


def test_what_begins_to_be_compiled_is_said_and_timed():
    kernel, said = numba.njit(lambda x: x + 1.0), []
    with compile_seconds(lambda: said.append("compiling")) as seconds:
        assert kernel(1.0) == 2.0
    assert said
    assert sum(seconds) > 0.0
    said.clear()
    with compile_seconds(lambda: said.append("compiling")) as seconds:
        kernel(2.0)
    assert not said
    assert not seconds
