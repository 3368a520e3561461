"""Checks at the public edge: each names the argument, the value met and the remedy."""

import numpy as np
import pytest

from bayescore import validation
from bayescore.text import first_difference, listed
from bayescore.validation import DataError


def test_choices():
    assert validation.check_choice("b", "method", ("a", "b")) == "b"
    for wrong in ("c", None, 3, ["a"]):
        with pytest.raises(ValueError, match=r"method=.* is unknown; choose one of 'a', 'b'"):
            validation.check_choice(wrong, "method", ("a", "b"))


def test_integers():
    assert validation.check_integer(np.int32(4), "size", low=1) == 4
    assert type(validation.check_integer(np.int32(4), "size", low=1)) is int
    for wrong in (1.0, "3", None, np.float64(2)):
        with pytest.raises(TypeError, match=r"size=.* must be a whole number"):
            validation.check_integer(wrong, "size", low=1)
    with pytest.raises(ValueError, match="size=0 must be at least 1, because"):
        validation.check_integer(0, "size", low=1, why=", because")
    with pytest.raises(ValueError, match="size=9 must be between 1 and 8"):
        validation.check_integer(9, "size", low=1, high=8)


def test_positive_numbers():
    assert validation.check_positive(np.float32(0.5), "radius") == 0.5
    assert type(validation.check_positive(np.float32(0.5), "radius")) is float
    for wrong in (0.0, -1, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"radius=.* must be positive and finite"):
            validation.check_positive(wrong, "radius")
    with pytest.raises(ValueError, match="delta=1 must be above 0 and below 1"):
        validation.check_positive(1.0, "delta", below=1.0)
    for wrong in ("much", None, [1, 2]):
        with pytest.raises(TypeError, match="must be a number"):
            validation.check_positive(wrong, "radius")


def test_seeds_repeat_and_generators_move_on():
    assert validation.check_seed(5) == validation.check_seed(np.int64(5)) == 5
    assert validation.check_seed(None) != validation.check_seed(None)
    sequence = np.random.SeedSequence(3)
    assert validation.check_seed(sequence) == validation.check_seed(np.random.SeedSequence(3))
    generator = np.random.default_rng(1)
    first, second = validation.check_seed(generator), validation.check_seed(generator)
    assert first != second
    assert first == validation.check_seed(np.random.default_rng(1))
    assert validation.check_seed(2**64 - 1) == 2**64 - 1
    for wrong in (-1, 2**64):
        with pytest.raises(ValueError, match=r"random_seed=.* must be between 0"):
            validation.check_seed(wrong, "random_seed")
    for wrong in (1.5, "0", np.random.RandomState(0)):
        with pytest.raises(TypeError, match="random_state"):
            validation.check_seed(wrong)


def test_generators():
    assert validation.check_generator(3).random() == np.random.default_rng(3).random()
    given = np.random.default_rng(0)
    assert validation.check_generator(given) is given
    assert validation.check_generator(None).random() != validation.check_generator(None).random()
    with pytest.raises(ValueError, match="random_state=-2"):
        validation.check_generator(-2)
    with pytest.raises(TypeError, match="whole number"):
        validation.check_generator("seed")


def test_matrices():
    X = np.ones((2, 3))
    assert validation.check_matrix(X) is X
    assert validation.check_matrix([[True, False]]).shape == (1, 2)
    assert validation.check_matrix(np.ma.masked_array(X)).shape == (2, 3)
    for wrong, message in (
        (np.ones(3), r"L has shape \(3,\); it must be 2-D.*reshape\(-1, 1\)"),
        (np.ones((1, 2, 3)), r"shape \(1, 2, 3\); it must be 2-D, rows by features$"),
        (np.ones((0, 3)), "at least one row and one column"),
        ([[1, "a"]], "must be numeric"),
        (np.array([[1, "a"]], dtype=object), "dtype object"),
        ([[1], [2, 3]], "differ in length"),
        (np.ma.masked_array(X, mask=X > 0), "masked entries"),
    ):
        with pytest.raises(DataError, match=message):
            validation.check_matrix(wrong, "L")
    with pytest.raises(DataError, match="X has 3 columns, but 2 features are expected"):
        validation.check_matrix(X, n_columns=2)
    with pytest.raises(TypeError, match="X is a dict"):
        validation.check_matrix({})


def test_finiteness_survives_sums_that_overflow_or_cancel():
    names = ("a", "b")
    with np.errstate(over="ignore", invalid="ignore"):
        validation.check_finite(np.full((4, 2), 1e308), names, 0)
        bad = np.array([[1.0, np.inf], [1.0, -np.inf]])
        with pytest.raises(DataError, match="the rows: column 'b' is inf in row 100; drop such rows or impute"):
            validation.check_finite(bad, names, 100, "the rows")


def test_weights():
    w = np.array([1.0, 2.0])
    assert validation.check_weights(w, 2) is w
    assert validation.check_weights([1, 2], 2).dtype == np.float64
    for wrong, message in (
        ([1.0], r"shape \(1,\); it must be \(2,\)"),
        ([[1.0, 2.0]], r"shape \(1, 2\)"),
        ([1.0, -0.5], "w is -0.5 in row 11; weights must be positive and finite"),
        ([0.0, 1.0], "w is 0 in row 10"),
        ([1.0, np.nan], "w is nan in row 11"),
        ([1.0, np.inf], "w is inf in row 11"),
        (["a", "b"], "w must be numbers"),
        ([1.0, None], "w is nan in row 11"),
    ):
        with pytest.raises(DataError, match=message):
            validation.check_weights(wrong, 2, "w", 10)


def test_names_are_shown_where_they_differ():
    names = ["a", "b", "c", "d", "e", "f", "g"]
    assert first_difference(names[:6], [*names[:5], "h"]) == ("..., b, c, d, e, f", "..., b, c, d, e, h")
    assert first_difference(["x", "y"], ["y", "x"]) == ("x, y", "y, x")
    assert first_difference(names, ["z", *names]) == ("a, b, c, d, e, ...", "z, a, b, c, d, ...")


def test_the_first_few_of_many_things_are_listed():
    assert listed(["a", "b"]) == "'a', 'b'"
    assert listed(["a", "b", "c"], 2, str) == "a, b and 1 more"
    assert listed([]) == ""
    assert listed(range(10_000), 1) == "0 and 9,999 more"
