"""Garbage collection waits for kernels that are compiled, and goes on afterwards, whatever happens."""

import gc

import numba
import pytest
from numba.core import event

from bayescore.compiled import compilation


@pytest.fixture(autouse=True)
def _collecting():
    gc.enable()
    yield
    gc.enable()


def compile_two():
    """Compile a kernel that calls another."""
    inner = numba.njit(lambda x: x + 1.0)
    numba.njit(lambda x: 2.0 * inner(x))(1.0)


def test_it_waits_while_kernels_are_compiled_and_goes_on_after_each():
    at_start, after = [], []
    with compilation(lambda: at_start.append(gc.isenabled()), lambda: after.append(gc.isenabled())):
        compile_two()
        assert gc.isenabled()
    assert at_start == [False, False]
    assert after == [False, True]  # the inner kernel is compiled while the outer is


def test_it_goes_on_after_each_kernel_where_contexts_stand_in_each_other():
    with compilation(), compilation():
        compile_two()
        assert gc.isenabled()


def test_it_goes_on_where_another_thread_is_still_compiling_after_ctrl_c():
    with compilation():  # which Ctrl-C leaves before the other thread's kernel is compiled
        event.start_event("numba:compile", {})
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_stays_off_where_the_user_has_switched_it_off():
    gc.disable()
    with compilation():
        compile_two()
    assert not gc.isenabled()
