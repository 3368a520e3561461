"""What formulas may say, and that nothing else is ever evaluated."""

import pytest

from bayescore.data.formula_parsing import GroupTerm, parsed
from bayescore.validation import DataError


def test_a_formula_is_taken_apart():
    found = parsed("clicked ~ age * C(device, Treatment('b')) + log(price) + scale(log(price)) + bs(`my x`, df=4) - 1")
    assert found.response == "clicked"
    assert set(found.columns) == {"age", "device", "price", "my x"}
    assert [(call.function, call.argument) for call in found.calls] == [
        ("C", "device"),
        ("scale", "log(price)"),
        ("bs", "my_x"),
    ]
    assert dict(found.aliases)["my_x"] == "my x"
    assert parsed("~ a").response is None
    assert parsed("a + b").columns == ("a", "b")


def test_group_terms_are_taken_out():
    found = parsed("y ~ (1 | county) + a * b + (1 + a:b + a | `my g`) - 1")
    assert [str(term) for term in found.terms] == ["a", "b", "a:b"]
    assert found.groups == (GroupTerm("county", (("1",),)), GroupTerm("my g", (("1", "a:b", "a"),)))
    assert parsed("a + (0 + log(a) | g) + log(a)").groups == (GroupTerm("g", (("log(a)",),)),)
    assert [str(term) for term in parsed("y ~ (1 | g) + (1 | h) + a").terms] == ["1", "a"]


SERVED = (
    "y ~ np.log(a) + np.sqrt(b)",
    "y ~ C(a, contr.sum) + C(b, contrasts=Helmert)",
    "y ~ C(a, contr.treatment(base='x'))",
    "y ~ C(a, levels=['x', 'y'])",
    "y ~ {a**2} + I((a - 3) / b > 2)",
    "y ~ cr(a, df=4, constraints='center') + cc(b, knots=[1, 2, 3]) + poly(a, 3)",
    "y ~ minimum(a, b) + abs(-a)",
    "y ~ (a + b)**2 - a:b + 0",
)


@pytest.mark.parametrize("text", SERVED)
def test_what_formulas_are_made_of_is_served(text):
    assert {"a"} <= set(parsed(text).columns) <= {"a", "b"}


REFUSED = {
    "an import": ("y ~ __import__('os').system('touch x')", "cannot be read|__import__"),
    "an import as a call": ("y ~ a + I(__import__('os'))", r"the call '__import__'"),
    "eval": ("y ~ eval('1')", "the call 'eval'"),
    "an attribute": ("y ~ I(a.__class__)", None),  # a column of that name, which no data have
    "a method": ("y ~ I(a.tofile('x'))", "the call 'a.tofile'"),
    "NumPy beyond its functions": ("y ~ np.load('x')", "the call 'np.load'"),
    "NumPy as a value": ("y ~ I(np)", None),  # a column named np, which no data have
    "a lambda": ("y ~ I((lambda: a)())", "has "),
    "a comprehension": ("y ~ I([x for x in a])", "has '"),
    "an index": ("y ~ I(a[0])", r"'a\[0\]'"),
    "a keyword's name": ("y ~ bs(a, df=open('x'))", "the call 'open'"),
    "a spread": ("y ~ log(*a)", "has '"),
    "an f-string": ("y ~ C(a, f'{a}')", 'has "f'),
    "a walrus": ("y ~ I((b := a))", "has '"),
    "a large power": ("y ~ I(a + 9**9**9)", "the power"),
    "rows before it": ("y ~ lag(a)", "the call 'lag'"),
    "any column": ("y ~ Q('a')", "the call 'Q'"),
    "a factor within": ("y ~ I(C(a))", r"C\(...\) inside"),
    "learnt of learnt": ("y ~ bs(scale(a), df=4)", r"'bs\(scale\(a\), df=4\)' has bs\(...\) of what is itself learnt"),
    "groups added": ("y ~ a + (1 | state + county)", r"'\(1 \| state \+ county\)' needs a column right of its bar"),
    "three bars": ("y ~ a + (1 + a ||| county)", r"has 3 bars; write one, .* or two together, \(1 \+ x \|\| g\)"),
    "two bars apart": ("y ~ a + (1 + a | | county)", "has 2 bars; write one"),
    "two columns of groups": ("y ~ a + (1 | g | h)", "has 2 bars; write one"),
    "nothing uncorrelated": ("y ~ a + (0 || g)", r"in '\(0 \|\| g\)' nothing varies by group"),
    "no term before two bars": ("y ~ a + ( || g)", "nothing that varies by group"),
    "a group term times": ("y ~ a:(1 | county)", r"the group term '\(1 \| county\)' must be added"),
    "a group term subtracted": ("y ~ a - (1 | county)", "must be added"),
    "groups as a feature": ("y ~ a + county + (1 | county)", "'county' is a grouping factor, and a feature"),
    "groups as a factor": ("y ~ a + C(county) + (1 | county)", "'county' is a grouping factor, and a feature"),
    "groups as the label": ("y ~ a + (1 | y)", "'y' is a grouping factor, and a feature or the label"),
    "an intercept twice": (
        "y ~ a + (1 + a | g) + (1 | g)",
        r"the intercept varies by 'g' in two .*leave \(1 \| g\) out",
    ),
    "an intercept before": ("y ~ a + (1 | g) + (a | g)", r"the intercept varies by 'g' in two .*leave \(1 \| g\) out"),
    "two intercepts": ("y ~ a + b + (a | g) + (b | g)", r"write \(0 \+ b \| g\) for \(1 \+ b \| g\)"),
    "a slope twice": ("y ~ a + (a || g) + (0 + a | g)", r"'a' varies by 'g' in two .*leave \(0 \+ a \| g\) out"),
    "an intercept by a slash": ("y ~ a + (a || g/h) + (1 | g)", r"varies by 'g' in two .*leave \(1 \| g\) out"),
    "slopes without a mean": ("y ~ a + (1 + b | g)", "'b' varies by 'g' about a mean that is no term .*; add 'b'"),
    "nothing varies": ("y ~ a + ( | g)", "nothing that varies by group"),
    "an effect of no column": ("y ~ a + (0 | g)", r"in '\(0 \| g\)' nothing varies by group; write \(1 \| g\)"),
    "an intercept left out": ("y ~ a + (a - 1 | g)", r"'a - 1' in .* stands for several terms.*\(0 \+ x \| g\)"),
    "effects by a star": ("y ~ a*b + (1 + a*b | g)", r"'a\*b' in .* stands for several terms.*1 \+ x \+ z \+ x:z"),
    "a bar alone": ("y ~ a | b", "a bar outside a group term"),
    "groups without a mean": ("y ~ 0 + (1 | g)", "leaves no coefficient; add 1"),
    "groups less the intercept": ("y ~ (1 | g) - 1", "leaves no coefficient; add 1"),
    "all columns of no table": ("y ~ .", "'.' stands for all columns of a table"),
    "all other columns of no table": ("y ~ log(a) + .", "'.' stands for all columns of a table"),
    "a power of R's": ("y ~ I(a^2)", r"powers are written a\*\*2"),
    "no end": ("y ~ a +", r"cannot be read, at '\+'"),
    "a number times": ("y ~ a + 2*b", "cannot be read, at '2'"),
    "nothing": ("", "cannot be read|leaves no coefficient"),
    "no coefficient": ("y ~ 0", "leaves no coefficient; add 1"),
    "the label as a feature": ("y ~ a + y", "'y' stands on both sides"),
    "a changed label beside it": ("log(y) ~ a + y", "'y' stands on both sides"),
    "a response of other code": ("y.max() ~ a", r"its left side .*'y.max\(\)'"),
    "one count": ("cbind(k) ~ a", r"its left side .*'cbind\(k\)'"),
    "a response of two parts": ("y | z ~ a", r"its left side .*'y \| z'"),
    "a column named as a function": ("y ~ log + log(a)", "column 'log' has the name of a function"),
    "columns too alike": ("y ~ log(my_x) + log(`my x`)", "too alike"),
    "no argument": ("y ~ scale()", r"scale\(\) learns from a column, and names none; write"),
    "smooth of nothing": ("y ~ s()", r"s\(\) learns from a column, and names none; write it of a column x, s\(x\)"),
    "smooth of a number": ("y ~ s(1)", r"s\(1\) learns from a column"),
    "smooth of numbers": ("y ~ x + s(np.log(2))", r"s\(np.log\(2\)\) learns from a column"),
    "smooth of text": ("y ~ s('x')", r"write it without quotes, s\(x\)"),
    "spline of text": ("y ~ cr('x', df=4)", r"write it without quotes, cr\(x\)"),
    "two smooths": ("y ~ s(x) + s(x, k=5)", r"s\(x\) and s\(x, k=5\) both have 'x' itself as a part"),
    "two names": ("y ~ s(x) + s(`x`, k=5)", r"both have 'x' itself as a part; leave one of them out"),
    "two of an expression": ("y ~ s(x + z) + z + s(x+z, k=6)", r"both have 'x [+] z' itself as a part"),
    "smooth and by": ("y ~ f + s(x) + s(x, by=f)", r"s\(x\) and s\(x, by=f\) both have 'x' itself"),
    "smooth and poly": ("y ~ poly(x, 2) + s(x)", r"s\(x\) and poly\(x, 2\) both have 'x' itself"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_anything_else_is_refused_by_name(kind):
    text, message = REFUSED[kind]
    if message is None:
        assert {"np", "a.__class__"} & set(parsed(text).columns)
        return
    with pytest.raises(DataError, match=message):
        parsed(text)


def test_a_formula_is_text():
    with pytest.raises(TypeError, match="formula is a int; give text"):
        parsed(3)  # type: ignore[arg-type]


def test_effects_are_spelled_as_terms_and_stand_once():
    (group,) = parsed("y ~ a + a:b + poly(a,2) + (1 + a + a + a : b + poly(a,2) | g)").groups
    assert group.effects == (("1", "a", "a:b", "poly(a, 2)"),)


@pytest.mark.parametrize(
    ("text", "response", "trials"),
    [
        ("cbind(k, n - k) ~ a", "k", "n"),
        ("cbind(`k k`, `n n` - `k k`) ~ a", "k k", "n n"),
        ("cbind(won, lost) ~ a", "won", "won + (lost)"),
        ("log(y) ~ a", "log(y)", None),
        ("I(y / 10) ~ a", "I(y / 10)", None),
        ("y - 3 ~ a", "y - 3", None),
        ("after - before ~ before", "after - before", None),
        ("sqrt(Sepal.Length) ~ a", "sqrt(Sepal.Length)", None),
        ("log10(`a ~ b`) ~ a", "log10(`a ~ b`)", None),
    ],
)
def test_left_sides_are_columns_or_what_is_computed_from_them(text, response, trials):
    assert (parsed(text).response, parsed(text).trials) == (response, trials)


def test_within_is_that_of_r():
    assert list(map(str, parsed("y ~ a + b %in% a").terms)) == list(map(str, parsed("y ~ a + b:a").terms))
    assert parsed("y ~ a + `b %in% a`").columns == ("a", "b %in% a")
