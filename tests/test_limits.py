"""Limits stand once, each with its unit and reason, and agree with each other."""

import ast
import re
from pathlib import Path

from bayescore import limits

SOURCE = Path(limits.__file__)


def test_each_limit_is_followed_by_its_reason():
    body = ast.parse(SOURCE.read_text(encoding="utf-8")).body[1:]  # after the module's own words
    for number, reason in zip(body[::2], body[1::2], strict=True):
        assert isinstance(number, ast.Assign)
        assert isinstance(reason, ast.Expr)
        assert isinstance(reason.value, ast.Constant)
        assert len(reason.value.value) > 40


def test_no_other_file_has_a_limit_of_the_same_name():
    names = "|".join(name for name in vars(limits) if name.isupper())
    found = [
        path.name
        for path in SOURCE.parent.rglob("*.py")
        if path != SOURCE and re.search(rf"^_?(?:{names})\b.* = ", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert found == []


def test_looser_limits_are_looser():
    assert limits.NEGLIGIBLE_CORRECTION < limits.NEGLIGIBLE_ERROR < limits.MAX_ERROR
    assert limits.MAX_FAILURE_PROBABILITY < limits.FAMILYWISE_ALPHA
    assert limits.EQUAL_WEIGHTS_SD < limits.NEARLY_EQUAL_WEIGHTS_SD < limits.MAX_LOG_RATIO_SD
    assert limits.MIN_ESS == 4 * limits.MIN_ESS_A_CHAIN  # of the usual four chains
