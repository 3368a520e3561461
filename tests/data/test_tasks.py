"""Tasks: every row in one task, in order, whatever the pieces; canonical blocks whole."""

from dataclasses import replace

import numpy as np
import pytest

from bayescore.data.design import Design
from bayescore.data.source import Division, Slice, plan
from bayescore.data.sources import as_source
from bayescore.types import stack

N = 500
X = np.arange(2.0 * N).reshape(N, 2)
SOURCE = as_source(X, np.arange(N) % 2)


def division(ends, transform=None):
    return Division(
        [Slice(SOURCE, low, high) for low, high in zip([0, *ends], [*ends, N], strict=True)], transform=transform
    )


@pytest.mark.parametrize("step", [None, 1, 7, 64, 500, 9999])
@pytest.mark.parametrize("seed", range(4))
def test_tasks_are_all_rows_in_canonical_blocks(step, seed):
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.integers(0, N + 1, rng.integers(0, 40))).tolist()  # some pieces are empty
    tasks = plan(division(ends), step)
    starts, blocks = [], []
    for task in tasks:
        own = list(task.blocks(step))
        assert sum(map(len, own)) == task.n_rows > 0
        starts.append(task.start)
        blocks += own
    assert starts == np.cumsum([0, *(task.n_rows for task in tasks[:-1])]).tolist()
    np.testing.assert_array_equal(stack(blocks).X, X)
    np.testing.assert_array_equal(stack(blocks).index, np.arange(N))
    if step is not None:
        assert [len(block) for block in blocks[:-1]] == [step] * (-(-N // step) - 1)
        for task in tasks:  # a task reads one piece and the head of what follows, less than a block
            assert sum(part.high - part.low for part in task.parts[1:]) < step


def test_a_design_is_applied_by_the_task():
    design = Design(("a", "b"), True, (1.0, 0.0), (2.0, 1.0))
    (task,) = plan(division([], design), None)
    np.testing.assert_array_equal(stack(list(task.blocks(100))).X, design.transform(X))


@pytest.mark.parametrize("step", [None, 64])
@pytest.mark.parametrize("high", [1, 130, N - 1, N, N + 50])
def test_tasks_end_with_the_rows_that_a_pass_goes_over(high, step):
    tasks = plan(replace(division([20, 60, 200, 420]), high=high), step)
    read = [part.piece.read(part.low, part.high) for task in tasks for part in task.parts]
    assert sum(task.n_rows for task in tasks) == min(high, N)
    np.testing.assert_array_equal(np.concatenate([own.X for each in read for own in each]), X[:high])
