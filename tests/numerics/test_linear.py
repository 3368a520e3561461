"""Compiled linear algebra against NumPy and SciPy."""

import numpy as np
from scipy import linalg

from bayescore.numerics import elementary

RNG = np.random.default_rng(5)
D, N = 6, 700
COLUMNS, WEIGHTS = np.ascontiguousarray(RNG.normal(size=(D, N))), RNG.uniform(0.1, 3.0, N)
GRAM = (COLUMNS * WEIGHTS) @ COLUMNS.T
U, V = RNG.normal(size=D), RNG.normal(size=N)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


def test_products_with_tall_matrices():
    close(elementary.tall_times(COLUMNS, U), COLUMNS.T @ U)
    close(elementary.tall_transposed_times(COLUMNS, V), COLUMNS @ V)


def test_the_gram_matrix_is_added_to_the_lower_triangle_only():
    matrix = np.full((D, D), 7.0)
    elementary.add_gram(COLUMNS, WEIGHTS, matrix)
    close(np.tril(matrix), np.tril(GRAM + 7.0))
    assert (matrix[np.triu_indices(D, 1)] == 7.0).all()


def test_the_factor_reads_and_writes_the_lower_triangle_only():
    matrix = np.tril(GRAM) + np.triu(np.full((D, D), np.nan), 1)
    elementary.factorise(matrix)
    close(np.tril(matrix), linalg.cholesky(GRAM, lower=True))
    assert np.isnan(matrix[np.triu_indices(D, 1)]).all()


def test_products_and_solutions_with_a_triangular_matrix():
    L = linalg.cholesky(GRAM, lower=True)
    kept = U.copy()
    close(elementary.times(L, U), L @ U)
    close(elementary.transposed_times(L, U), L.T @ U)
    close(elementary.solve(L, U), linalg.solve_triangular(L, U, lower=True))
    close(elementary.transposed_solve(L, U), linalg.solve_triangular(L.T, U, lower=False))
    close(elementary.log_diagonal(L), 0.5 * np.linalg.slogdet(GRAM)[1])
    np.testing.assert_array_equal(U, kept)
