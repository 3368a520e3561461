"""Labels: two classes in their order, and rows' labels as signs."""

import numpy as np
import pytest

from bayescore.data.responses import signed_labels, two_classes
from bayescore.validation import DataError


def test_classes_come_in_sorted_order():
    assert two_classes([1, 0]) == (0, 1)
    assert two_classes(["yes", "no"], "y") == ("no", "yes")
    assert two_classes([True, False]) == (False, True)
    for wrong, message in (
        ([3], "y has one class only, 3"),
        ([1, 2, 3], r"y has 3 classes \(1, 2, 3\)"),
        (range(8), r"more than 5 classes \(0, 1, 2, 3, 4, \.\.\.\)"),
        ([1, "a", 2], "3 classes"),
        ([1, None], "missing labels"),
        ([1.0, float("nan")], "missing labels"),
        ([1, "a"], "mixes numbers and text: 1 and 'a'"),
        ([b"a", b"b"], "labels of type bytes"),
    ):
        with pytest.raises(DataError, match=message):
            two_classes(wrong)


def test_labels_become_signs():
    signs = signed_labels(np.array(["a", "b", "a"]), ("a", "b"), 0)
    assert signs.tolist() == [-1, 1, -1]
    assert signs.dtype == np.int8
    with pytest.raises(DataError, match="y is 'c' in row 41, neither 'a' nor 'b'"):
        signed_labels(np.array(["a", "c"], dtype=object), ("a", "b"), 40)


def test_labels_beyond_64_bits_are_refused():
    assert two_classes([-(2**63), 2**63 - 1]) == (-(2**63), 2**63 - 1)
    for label in (2**63, -(2**63) - 1):
        with pytest.raises(DataError, match=r"y has the label -?\d+, beyond 64 bits with a sign; turn .* into text"):
            two_classes([0, label])


def test_an_order_of_their_own_says_which_label_is_plus_one():
    assert two_classes(["high", "low"], order=("low", "mid", "high")) == ("low", "high")
    assert two_classes(["high", "low"], order=("low", "mid", "high"), positive="low") == ("high", "low")
