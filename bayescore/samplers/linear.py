"""Small dense linear algebra for compiled samplers; `compiled` says why not BLAS.

Tall matrices are given by columns, shape (D, n), so that loops over rows vectorise; triangular ones are lower.
"""

import math

import numpy as np

from bayescore.compiled import jit, jit_sums
from bayescore.types import FloatArray


@jit
def tall_times(columns: FloatArray, vector: FloatArray) -> FloatArray:
    """Return A v, shape (n,)."""
    product = np.zeros(columns.shape[1])
    for d in range(columns.shape[0]):
        for n in range(product.size):
            product[n] += columns[d, n] * vector[d]
    return product


@jit_sums
def tall_transposed_times(columns: FloatArray, vector: FloatArray) -> FloatArray:
    """Return A' v, shape (D,)."""
    product = np.empty(columns.shape[0])
    for d in range(product.size):
        total = 0.0
        for n in range(vector.size):
            total += columns[d, n] * vector[n]
        product[d] = total
    return product


@jit_sums
def add_gram(columns: FloatArray, weights: FloatArray, matrix: FloatArray) -> None:
    """Add A' diag(weights) A to the lower triangle of `matrix`, shape (D, D)."""
    weighted = np.empty(weights.size)
    for i in range(columns.shape[0]):
        for n in range(weights.size):
            weighted[n] = columns[i, n] * weights[n]
        for j in range(i + 1):
            total = 0.0
            for n in range(weights.size):
                total += weighted[n] * columns[j, n]
            matrix[i, j] += total


@jit
def factorise(matrix: FloatArray) -> None:
    """Replace the lower triangle of a positive definite matrix by its Cholesky factor; the upper one is not read."""
    for j in range(matrix.shape[0]):
        for i in range(j, matrix.shape[0]):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = math.sqrt(total) if i == j else total / matrix[j, j]


@jit
def times(lower: FloatArray, vector: FloatArray) -> FloatArray:
    """Return L v."""
    product = np.zeros(vector.size)
    for i in range(vector.size):
        for j in range(i + 1):
            product[i] += lower[i, j] * vector[j]
    return product


@jit
def transposed_times(lower: FloatArray, vector: FloatArray) -> FloatArray:
    """Return L' v."""
    product = np.zeros(vector.size)
    for i in range(vector.size):
        for j in range(i + 1):
            product[j] += lower[i, j] * vector[i]
    return product


@jit
def solve(lower: FloatArray, vector: FloatArray) -> FloatArray:
    """Return L^-1 v."""
    x = vector.copy()
    for i in range(x.size):
        for j in range(i):
            x[i] -= lower[i, j] * x[j]
        x[i] /= lower[i, i]
    return x


@jit
def transposed_solve(lower: FloatArray, vector: FloatArray) -> FloatArray:
    """Return L'^-1 v."""
    x = vector.copy()
    for i in range(x.size - 1, -1, -1):
        x[i] /= lower[i, i]
        for j in range(i):
            x[j] -= lower[i, j] * x[i]
    return x


@jit
def log_diagonal(lower: FloatArray) -> float:
    """Return the sum of the logarithms of the diagonal: half the log determinant of L L'."""
    total = 0.0
    for i in range(lower.shape[0]):
        total += math.log(lower[i, i])
    return total
