"""Garbage collection waits for kernels that are compiled, and goes on afterwards, whatever happens."""

import gc

import numba
import pytest
from numba.core import event

from bayescore.compiled import compile_seconds
from bayescore.garbage import no_collection_while_compiling


@pytest.fixture(autouse=True)
def _collecting():
    gc.enable()
    yield
    gc.enable()


def seen_while_compiling():
    """Compile a kernel that calls another, and return whether collection was on as either began."""
    inner, seen = numba.njit(lambda x: x + 1.0), []
    outer = numba.njit(lambda x: 2.0 * inner(x))
    with compile_seconds(lambda: seen.append(gc.isenabled())):
        outer(1.0)
    return seen


def test_it_waits_while_kernels_are_compiled_and_goes_on_after_each():
    assert seen_while_compiling() == [True, True]
    with no_collection_while_compiling():
        assert seen_while_compiling() == [False, False]
        assert gc.isenabled()
    assert seen_while_compiling() == [True, True]


def test_it_goes_on_where_another_thread_is_still_compiling_after_ctrl_c():
    with no_collection_while_compiling():  # which Ctrl-C leaves before the other thread's kernel is compiled
        event.start_event("numba:compile", {})
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_stays_off_where_the_user_has_switched_it_off():
    gc.disable()
    with no_collection_while_compiling():
        seen_while_compiling()
    assert not gc.isenabled()
