"""Separation, complete or not, against overlap; cutting planes; the circle without small coresets; the warning."""

import warnings

import numpy as np
import pytest
from scipy.optimize import linprog

from bayescore import build_coreset, find_map
from bayescore.coresets import separation as hyperplane
from bayescore.coresets.scores import block_factor, whitening
from bayescore.coresets.separation import TOLERANCE, find_contradictions, first_rows, separability, separate, unit_rows
from bayescore.data.dataset import Dataset
from bayescore.data.sources import as_source
from bayescore.families.family import FAMILIES
from bayescore.papers import separable_circle
from bayescore.types import WeightedData
from bayescore.validation import DataError
from tests.cuts import Recut

COMPLETE, QUASI, OVERLAP = "complete separation", "quasi-complete separation", "overlap"


def data(X, y, weights=None):
    X, n = np.asarray(X, dtype=float), len(y)
    return WeightedData(X, np.asarray(y, dtype=np.int8), np.ones(n) if weights is None else weights, np.arange(n))


def kind(rows, **options):
    return separability(rows, random_state=0, progressbar=False, **options).kind


def case(name, n=400, seed=0):
    """Return rows of a known kind: an intercept, two normal columns, and a category of 10 rows."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 2)), np.arange(n) < 10])
    eta = X @ [0.2, 1.0, -0.5, 0.0]
    y = np.where(eta + (0.0 if name == COMPLETE else 1.0) * rng.logistic(size=n) > 0, 1, -1)
    if name == QUASI:
        y[:10] = 1
    return data(X, y)


def konis(rows):
    """Return the maximum of Konis' program over the plain rows."""
    Z = rows.Z
    return -linprog(-Z.mean(axis=0), A_ub=-Z, b_ub=np.zeros(len(Z)), bounds=(-1, 1)).fun


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", [COMPLETE, QUASI, OVERLAP])
def test_kinds_agree_with_konis_program(name, seed):
    rows = case(name, seed=seed)
    found = separability(rows, random_state=seed, progressbar=False)
    assert found.kind == name
    assert found.mle_exists == (name == OVERLAP) == (konis(rows) < 1e-9)
    if found.direction is None:
        assert "the maximum likelihood estimate exists" in str(found)
    else:
        margins = rows.Z @ found.direction
        assert margins.min() > (0.0 if name == COMPLETE else -1e-12)
        assert found.n_on_plane == (np.abs(margins) < 1e-12).sum()
        assert "does not exist" in str(found)


def test_the_column_that_separates_is_named():
    found = separability(case(QUASI), progressbar=False)
    assert found.columns == ("x3",)
    assert found.n_on_plane == 390
    assert str(found) == (
        "quasi-complete separation along 'x3': none of the 400 rows is on the wrong side, 390 lie on the hyperplane; "
        "the maximum likelihood estimate does not exist"
    )


@pytest.mark.parametrize("name", [COMPLETE, QUASI, OVERLAP])
def test_weights_labels_scales_and_dependent_columns_change_nothing(name):
    rows = case(name)
    rng = np.random.default_rng(5)
    assert kind(rows.with_weights(rng.uniform(1e-3, 1e4, len(rows)))) == name
    copies = rows.take(np.repeat(np.arange(len(rows)), rng.integers(1, 4, len(rows))))
    assert kind(copies) == name
    assert kind(data(rows.X, -rows.y)) == name
    assert kind(rows.take(rng.permutation(len(rows)))) == name
    assert kind(data(rows.X * [1.0, 1e-9, 1e9, 1e3], rows.y)) == name
    assert kind(data(rows.X * rng.uniform(1e-6, 1e6, (len(rows), 1)), rows.y)) == name
    mixed = np.column_stack([rows.X, rows.X[:, :2] @ [3.0, -1.0], np.zeros(len(rows)), 1.0 - rows.X[:, 3]])
    found = separability(data(mixed, rows.y), progressbar=False)
    assert found.kind == name  # z . direction = 0 in all rows separates nothing
    if found.direction is not None:
        assert (mixed * rows.y[:, None] @ found.direction).max() > 0.1 * np.abs(found.direction).max()


def test_one_label_is_separated_by_the_intercept_alone():
    X = np.random.default_rng(0).normal(size=(50, 2))
    assert kind(data(np.column_stack([np.ones(50), X]), np.ones(50))) == COMPLETE
    assert kind(data(X, np.ones(50))) == OVERLAP
    with pytest.raises(DataError, match="y has one class only"):
        separability(X, np.ones(50))


def test_rows_of_zeros_lie_on_every_hyperplane():
    rows = case(COMPLETE)
    X = rows.X.copy()
    X[7] = 0.0
    found = separability(data(X, rows.y), progressbar=False)
    assert found.kind == QUASI
    assert found.n_on_plane >= 1


def test_opposite_rows_overlap():
    X = np.repeat(np.random.default_rng(0).normal(size=(30, 3)), 2, axis=0)
    assert kind(data(X, np.tile([1, -1], 30))) == OVERLAP  # the z_n add up to 0: the program has no solution


@pytest.mark.parametrize("n", [41, 30_001])
@pytest.mark.parametrize("depth", [1e-2, 1e-4, 1e-6, 1e-8])
def test_one_row_decides(n, depth):
    """Two clusters with a gap, and one more row at its edge: inside by `depth`, or beyond the other cluster's edge."""
    half = n // 2
    x = np.concatenate([np.linspace(-1.0, -0.1, half), np.linspace(0.1, 1.0, half), [0.0]])
    y = np.concatenate([-np.ones(half), np.ones(half + 1)])
    for sign, expected in ((1.0, COMPLETE), (-1.0, OVERLAP)):
        x[-1] = -0.1 + sign * depth
        assert kind(data(np.column_stack([np.ones(n), x]), y)) == expected


def test_below_the_tolerance_data_count_as_quasi_separated():
    x = np.array([-1.0, -0.5, 0.5, 1.0, -0.5])
    y = np.array([-1, -1, 1, 1, 1])
    for shift in (0.0, 0.1 * TOLERANCE, -0.1 * TOLERANCE):
        x[-1] = -0.5 + shift
        assert kind(data(np.column_stack([np.ones(5), x]), y)) == QUASI


def test_nearly_dependent_columns():
    rng = np.random.default_rng(1)
    n, category = 300, np.arange(300) % 7
    time_stamp = 1.7e9 + 10.0 * rng.random(n)  # beside an intercept: condition number 1e9
    X = np.column_stack([np.ones(n), time_stamp, np.eye(7)[category]])
    y = np.where(rng.random(n) < 0.4, 1, -1)
    assert kind(data(X, y)) == OVERLAP
    assert kind(data(X, np.where(category == 3, 1, y))) == QUASI
    assert kind(data(X, np.where(time_stamp > time_stamp.mean(), 1, -1))) == COMPLETE


def large(name, n=40_000):
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(n), np.eye(5)[rng.integers(5, size=n)], rng.normal(size=(n, 3))])
    eta = X @ [0.1, 0.3, -0.2, 0.0, 0.1, -0.4, 1.0, -1.0, 0.5]
    y = np.where(eta + (0.0 if name in (COMPLETE, "one row") else 1.0) * rng.logistic(size=n) > 0, 1, -1)
    if name == QUASI:
        y[X[:, 3] == 1] = -1
    if name == "one row":
        y[np.argmax(eta)] = -1
    return data(X, y)


@pytest.mark.parametrize("name", [COMPLETE, QUASI, OVERLAP, "one row"])
def test_cutting_planes_answer_for_all_rows_whatever_the_blocks(name):
    rows = large(name)
    found = separability(rows, random_state=3, progressbar=False)
    assert found.kind == (OVERLAP if name == "one row" else name)
    assert found.n_tried < 4000
    if name == OVERLAP:
        assert found.n_passes == 3  # the check of the rows, the QR, the sample: nothing left to verify
    other = separability(Recut(as_source(rows), 777), random_state=3, progressbar=False)
    for field in ("kind", "columns", "n_rows", "n_on_plane", "n_tried", "n_passes"):
        assert getattr(other, field) == getattr(found, field)
    np.testing.assert_array_equal(other.direction, found.direction)


def test_a_sample_that_misses_a_direction_proves_nothing():
    """Rows of four categories overlap; the fifth, of one label, is not among them."""
    rows = large(OVERLAP)
    rows = data(rows.X, np.where(rows.X[:, 5] == 1, 1, rows.y))
    dataset = Dataset(as_source(rows))
    white = whitening(block_factor(rows))
    blind = rows.take(np.flatnonzero(rows.X[:, 5] == 0)[:500])
    assert separate(dataset, blind, white)[0].kind == OVERLAP  # what the rank must guard against
    assert separate(dataset, first_rows(dataset, white, 0), white)[0].kind == QUASI


def test_rows_against_a_direction_are_all_found_and_the_worst_come_back(monkeypatch):
    monkeypatch.setattr(hyperplane, "CUTS", 20)
    rows = large(OVERLAP)
    white = whitening(block_factor(rows))
    direction = np.eye(white.rank)[0]
    margins = unit_rows(rows, white)[0] @ direction
    found = find_contradictions(Dataset(as_source(rows)), white, direction, strict=False)
    assert found.n_rows == (margins < -TOLERANCE).sum()
    np.testing.assert_array_equal(found.worst.index, np.argsort(margins, kind="stable")[:20])


def test_refusals():
    with pytest.raises(DataError, match="every entry of the design matrix is 0"):
        separability(np.zeros((20, 3)), np.arange(20) % 2, progressbar=False)
    with pytest.raises(DataError, match="column 'x1' is nan in row 4"):
        separability(np.where(np.arange(40).reshape(20, 2) == 9, np.nan, 1.0), np.arange(20) % 2, progressbar=False)
    with pytest.raises(DataError, match="no row is left"):
        separability(np.ones((20, 3)), np.arange(20) % 2, weights=np.zeros(20))


N_CIRCLE = 64


def losses(rows, beta, family):
    return -rows.weights * FAMILIES[family].log_p(rows.X @ beta, rows.y)


def circle():
    X, y = separable_circle(N_CIRCLE, 3)
    return data(X, y)


def alone(rows, n, family):
    """Return coefficients at which row n carries nearly all of the loss, or None: those that separate it off."""
    flipped = rows.y.copy()
    flipped[n] = -flipped[n]
    found = separability(data(rows.X, flipped), progressbar=False)
    if found.kind != COMPLETE:
        return None
    margins = np.delete(rows.Z @ found.direction, n)
    return found.direction * (40.0 / margins.min())


@pytest.mark.parametrize("family", ["logistic", "probit"])
def test_on_the_circle_every_row_alone_carries_the_loss(family):
    rows = circle()
    for n in range(len(rows)):
        parts = losses(rows, alone(rows, n, family), family)
        assert parts[n] > 0.999 * parts.sum()
    inside = data(np.concatenate([rows.X, [[0.1, 0.0, 1.0]]]), np.append(rows.y, 1))
    assert alone(inside, len(rows), family) is None  # in a generator that leaves the circle the row would be found


@pytest.mark.parametrize("method", ["uniform", "sensitivity", "calibrated", "leverage"])
def test_no_small_coreset_of_the_circle(method):
    """What a coreset leaves out is a loss it does not see, for some coefficients: Theorem 2."""
    rows = circle()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # one label only, and separated
        core = build_coreset(rows, method=method, size=len(rows) // 2, random_state=0, progressbar=False)
    left_out = np.setdiff1d(rows.index, core.index)
    assert len(left_out) >= len(rows) // 4
    for n in left_out:
        beta = alone(rows, n, "logistic")
        assert losses(core, beta, "logistic").sum() < 0.01 * losses(rows, beta, "logistic").sum()


@pytest.mark.parametrize("n", [20, 1000, 20_000])
def test_who_has_the_circle_knows_every_bit_of_it(n):
    X, _ = separable_circle(n, 0)
    kept = set(np.rint(np.arctan2(X[:, 1], X[:, 0]) * n / (2 * np.pi)).astype(int) % n)
    queries = range(1, n) if n == 20 else [7, 8, 9, n // 2]
    for query in queries:
        assert kind(data(*separable_circle(n, 0, query))) == (OVERLAP if query in kept else COMPLETE)


@pytest.mark.parametrize("method", ["leverage", "online"])
def test_separable_data_are_warned_of_and_the_posterior_is_still_there(method):
    for name in (COMPLETE, QUASI):
        rows = large(name)
        with pytest.warns(UserWarning, match=f"{name}.* guarantee .* mu is infinite.* driven by the prior"):
            core = build_coreset(rows, method=method, family="probit", size=300, random_state=1, progressbar=False)
        assert np.isfinite(find_map(core).beta).all()
    for name in (OVERLAP, "one row"):
        build_coreset(large(name), method=method, family="probit", size=300, random_state=1, progressbar=False)


@pytest.mark.parametrize("method", ["leverage", "online"])
def test_a_program_that_is_not_solved_costs_no_coreset(method, monkeypatch):
    """HiGHS gives up after one step of the simplex method."""

    def one_step(*args, options, **kwargs):
        return linprog(*args, options={**options, "maxiter": 1}, **kwargs)

    monkeypatch.setattr(hyperplane, "linprog", one_step)
    rows = large(QUASI)
    with pytest.warns(UserWarning, match=r"separated is not known: the linear program was not solved: .*limit"):
        core = build_coreset(rows, method=method, family="probit", size=300, random_state=1, progressbar=False)
    assert core.weights.sum() == pytest.approx(len(rows), rel=0.5)
    with pytest.raises(RuntimeError, match="not solved"):
        kind(rows)
