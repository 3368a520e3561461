import math

from bayescore.text import number, with_error


def test_numbers_have_the_digits_their_error_allows():
    assert with_error(0.12345, 0.0321) == ("0.123", "0.032")
    assert with_error(-1234.4, 12.0, signed=True) == ("−1,234", "12")
    assert with_error(0.5, float("nan")) == ("0.500", "")
    assert with_error(-0.00001, 0.0018, signed=True) == ("+0.0000", "0.0018")


def test_errors_too_small_or_values_too_large_for_decimals_are_cut():
    assert with_error(0.5, 1e-9) == ("0.5", "1e-09")
    assert with_error(-2.5e8, 1.0, signed=True) == ("−2.5e+08", "1")
    assert with_error(math.inf, 0.1) == ("inf", "")
    assert with_error(3.0, 0.0) == ("3.00", "")


def test_numbers_are_plain_between_a_ten_thousandth_and_ten_million():
    assert number(123456.0) == "123,456"
    assert number(0.00012345) == "0.000123"
    assert number(1e-9) == "1e−09"
    assert number(-2e7, 2) == "−2e+07"
    assert number(0.0) == "0"
    assert number(None) == number(math.nan) == "–"
