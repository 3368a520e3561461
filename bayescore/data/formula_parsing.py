"""What a formula may contain, and what it needs of the data: columns, levels, numbers learnt in a pass.

A formula may come from a file, and its terms are Python expressions. So only arithmetic and comparisons of columns and
numbers, and calls of the functions named below, are evaluated. Anything else is refused by name before `formulaic` sees
data.

Takes group terms, ``(1 | county)`` or ``(1 + age | g)``, which formulaic does not read, out of a formula.

Left of the bar is what varies by group: "1" for an intercept, else terms that the formula also has. Right of it is the
column of groups, or the combinations of columns, ``a:b``; ``a/b``, b within a, stands for two terms, of ``a`` and of
``a:b``. Terms of several columns are crossed factors. Effects in one term are correlated, those in several terms of one
column are not; ``(1 + x || g)`` stands for ``(1 | g) + (0 + x | g)``, a group term for each term, as in lme4.
"""

import ast
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from bayescore.data.design import term_text
from bayescore.data.factors import JOINT
from bayescore.data.responses import Expression
from bayescore.validation import DataError

_NAME = r"`[^`]+`|[^\W\d][\w.]*"  # of a column


_COLUMNS = re.compile(rf"\s*(?:{_NAME})(?:\s*[:/]\s*(?:{_NAME}))*\s*")  # right of a bar


_JOINED = re.compile(r"^[^(`]*[-*/^]")  # operators of formulas, outside calls and quotes


@dataclass(frozen=True)
class GroupTerm:
    """The group terms of a column of groups: the terms whose effects vary by group, a tuple for each group term."""

    column: str
    effects: tuple[tuple[str, ...], ...]


def without_group_terms(text: str) -> tuple[str, tuple[GroupTerm, ...]]:
    """Return a formula without its group terms, and these by column; raise `DataError` if one cannot be read."""
    effects: dict[str, tuple[tuple[str, ...], ...]] = {}
    rest, end = "", 0
    for start, bar, stop in _bar_positions(text):
        term = text[start : stop + 1]
        head, tail = (rest + text[end:start]).rstrip(), text[stop + 1 :].lstrip()
        if (head and not head.endswith(("+", "~"))) or (tail and not tail.startswith(("+", "-"))):
            raise DataError(f"formula={text!r}: the group term {term!r} must be added, as in y ~ x + {term}")
        end = stop + 1
        if head.endswith("+"):
            rest = head[:-1]
        elif tail.startswith("+"):
            rest, end = head, len(text) - len(tail) + 1
        else:
            rest = f"{head} 1"
        for group in _terms(text, term, text[start + 1 : bar], text[bar + 1 : stop]):
            effects[group.column] = (*effects.get(group.column, ()), *group.effects)
    return (rest + text[end:] if effects else text), tuple(GroupTerm(*group) for group in effects.items())


def _terms(text: str, term: str, left: str, right: str) -> list[GroupTerm]:
    uncorrelated = right.startswith("|")
    if "|" in (bars := re.sub("`[^`]*`", "", right[uncorrelated:])):
        raise DataError(
            f"formula={text!r}: the group term {term!r} has {1 + uncorrelated + bars.count('|')} bars; write one, "
            "(1 + x | g), for correlated effects, or two together, (1 + x || g), for uncorrelated ones"
        )
    columns = _columns(right[uncorrelated:], text)
    if not columns:
        raise DataError(
            f"formula={text!r}: the group term {term!r} needs a column right of its bar, as in (1 | county), or "
            "columns joined by : or /, as in (1 | state/county)"
        )
    effects = tuple(part.strip() for part in _summands(left))
    if "" in effects:
        raise DataError(f"formula={text!r}: the group term {term!r} has nothing that varies by group; write (1 | g)")
    if joined := [part for part in effects if _JOINED.search(part)]:
        raise DataError(
            f"formula={text!r}: {joined[0]!r} in {term!r} stands for several terms, or for one left out; write those "
            "that vary one by one, joined by +, and 0 for no intercept: (1 + x + z + x:z | g), (0 + x | g)"
        )
    intercept = [] if "0" in effects else ["1"]
    varying = (*intercept, *dict.fromkeys(name for name in effects if name not in ("0", "1")))
    if not varying:
        raise DataError(
            f"formula={text!r}: in {term!r} nothing varies by group; write (1 | {columns[0]}), or leave the term out"
        )
    return [GroupTerm(column, tuple((one,) for one in varying) if uncorrelated else (varying,)) for column in columns]


def _columns(text: str, formula: str) -> list[str]:
    """Return the grouping factors right of a bar, the finest last; none if it cannot be read.

    >>> _columns("state", ""), _columns("state / county:`school year`", "")
    (['state'], ['state', 'state:county:school year'])
    """
    matches = re.findall(rf"({_NAME})\s*([:/]?)", text)
    names, marks = [name.strip("`") for name, _ in matches], [mark for _, mark in matches]
    if _COLUMNS.fullmatch(text) is None or len(set(names)) < len(names):
        return []
    if len(names) > 1 and (colon := [name for name in names if JOINT in name]):
        raise DataError(f"formula={formula!r}: column {colon[0]!r} has a colon in its name, and is joined; rename it")
    ends = [k for k, mark in enumerate(marks) if mark != JOINT]
    return [JOINT.join(names[: k + 1]) for k in ends]


def _bar_positions(text: str) -> list[tuple[int, int, int]]:
    """Return the positions of outermost parentheses with a bar: opening, bar, closing."""
    places, depth, start, bar, quoted = [], 0, 0, -1, False
    for i, mark in enumerate(text):
        if mark == "`":
            quoted = not quoted
        elif quoted:
            continue
        elif mark == "(":
            depth += 1
            start, bar = (i, -1) if depth == 1 else (start, bar)
        elif mark == "|" and depth == 1 and bar < 0:
            bar = i
        elif mark == ")":
            depth -= 1
            if depth == 0 and bar >= 0:
                places.append((start, bar, i))
    return places


def _summands(text: str) -> list[str]:
    first, mark, rest = _split_at(text, "+")
    return [first, *(_summands(rest) if mark else [])]


PLAIN = frozenset(("I", "abs", "sqrt", "log", "log10", "log2", "log1p", "exp", "exp10", "exp2", "expm1")) | frozenset(
    ("sin", "cos", "tan", "tanh", "floor", "ceil", "minimum", "maximum")
)
"""Functions of numbers, also as np.log."""


MOMENTS = frozenset(("center", "scale", "standardize"))
"""Functions that know the mean or sd of their argument."""


SPLINES = ("bs", "cr", "cs", "cc")
"""Splines, of a range of their argument."""


SMOOTH = "s"
"""The function of a smooth term, whose columns but the first have one sd."""


_WITH_LINEAR_PART = frozenset(("poly", "bs", "cr", SMOOTH))  # whose columns add up to a straight line, too


BASES = frozenset(("poly", *SPLINES, SMOOTH))
"""Functions that know quantiles, bounds or products of their argument: polynomials, splines and smooths."""


CODINGS = frozenset(("Treatment", "Sum", "Helmert", "Diff", "Poly"))
"""Codings of a factor, `C(g, Sum)`; also as contr.sum and so on."""


CONTR = frozenset(f"contr.{name}" for name in ("treatment", "sum", "helmert", "diff", "poly", "SAS"))


LEARNING = MOMENTS | BASES | {"C"}
"""Functions that learn from the data."""


_HARMLESS = (
    *(ast.Expression, ast.Name, ast.Load, ast.Constant, ast.List, ast.Tuple, ast.keyword),
    *(ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.unaryop, ast.cmpop),
)


_COUNTS = re.compile(
    rf"\s*(?:(?P<successes1>{_NAME})\s*\|\s*trials\(\s*(?P<trials1>{_NAME})\s*\)"
    rf"|p\(\s*(?P<successes2>{_NAME})\s*,\s*(?P<trials2>{_NAME})\s*\))\s*~"
)


_TOTAL = re.compile(rf"(?P<trials>{_NAME})\s*-\s*(?P<successes>{_NAME})")


_CBIND = re.compile(r"\s*cbind\((?P<both>.*)\)\s*", re.DOTALL)


_SURV = re.compile(r"\s*Surv\((?P<both>.*)\)\s*", re.DOTALL)


_WITHIN = re.compile(r"""(?P<text>"[^"]*"|'[^']*'|`[^`]*`)|\s*%in%\s*""")


_DOT_ALONE = re.compile(r"""(?P<text>"[^"]*"|'[^']*'|`[^`]*`)|(?<![\w.)])\.(?![\w.(])""")


_OFFSET = re.compile(r"(?<![\w.])offset\(")


_MARK = "\N{WORD JOINER}"
_DOT = 2 * _MARK


def marked(name: str) -> str:
    """Return the name of a column for formulaic, to which the column `1` is the number 1, and `a.b` a part of `a`.

    Digits get a mark at their end, and marks stand for dots.

    >>> marked("1") == "1", "." in marked("a.b"), marked("age")
    (False, False, 'age')
    """
    end = _MARK if re.fullmatch(r"[\d.]+", name) else ""
    return name.replace(".", _DOT) + end


def unmarked(text: str) -> str:
    """Return names of formulaic without the marks of `marked`."""
    return text.replace(_DOT, ".").replace(_MARK, "")


# text in quotes, a name in backticks, and a name with a dot that is no function or contrast
_NAMES = re.compile(
    r"""(?P<text>"[^"]*"|'[^']*')|`(?P<quoted>[^`]+)`|(?<![\w.])(?!contr\.)(?P<dotted>[^\W\d]\w*(?:\.\w+)+)(?![\w.(])"""
)


def _marked_names(text: str) -> str:
    """Mark names in backticks that need them, and give these to names with a dot, as data from R have them."""

    def name(match: re.Match[str]) -> str:
        if (quoted := match["quoted"]) and quoted.isidentifier() and not keyword.iskeyword(quoted):
            return quoted  # else `x` and x would be two columns
        return match["text"] or f"`{marked(quoted or match['dotted'])}`"

    return _NAMES.sub(name, text)


_MAX_POWER = 64  # a**b of constants is computed before any row is read


@dataclass(frozen=True)
class Call:
    """A call whose function learns from the data: `key` is formulaic's name of it, and it is applied to `argument`.

    Columns in `argument` have Python names, see `Parsed.aliases`.
    """

    function: str
    key: str
    argument: str
    term: str

    @property
    def arguments(self) -> tuple[list[ast.expr], dict[str, ast.expr]]:
        """The arguments by position and by name, as Python's parser has them."""
        tree = ast.parse(self.key, mode="eval").body
        assert isinstance(tree, ast.Call)
        return tree.args, {str(word.arg): word.value for word in tree.keywords}


@dataclass(frozen=True)
class Parsed:
    """A formula taken apart."""

    text: str
    response: str | None  # column of the labels, or what numbers are computed as, such as log(y)
    columns: tuple[str, ...]  # that terms use, in order
    calls: tuple[Call, ...]  # that learn from the data
    aliases: tuple[tuple[str, str], ...]  # Python names, and columns
    terms: Any  # formulaic's
    groups: tuple[GroupTerm, ...] = ()
    trials: str | None = None  # column of binomial trials, or their expression; `response` has the successes
    offset: str | None = None  # what the terms offset(...) add up to, as `offsets.Offset` reads it
    exposure: str | None = None  # column of times, or their expression, of Surv(time, event); `response` has the events

    @property
    def factors(self) -> tuple[str, ...]:
        """Columns that a term C(...) calls factors."""
        return tuple(column for column, _ in self.codings)

    @property
    def codings(self) -> list[tuple[str, Call]]:
        """The terms C(...), each with the column that it calls a factor."""
        alias = dict(self.aliases)
        return [(alias.get(call.argument, call.argument), call) for call in self.calls if call.function == "C"]

    @property
    def smooths(self) -> tuple[str, ...]:
        """The smooth terms."""
        return tuple(unmarked(call.term) for call in self.calls if call.function == SMOOTH)


@lru_cache(maxsize=8)
def parsed(text: str) -> Parsed:
    """Take a formula apart; raise `DataError` if it cannot be read or has a term that is not supported."""
    if not isinstance(text, str):
        raise TypeError(f"formula is a {type(text).__name__}; give text such as 'clicked ~ age + device'")
    plain, groups = without_group_terms(_expand_in(text))
    sides, plain = _parse_left_side(text, plain)
    response, trials, exposure = (None if side is None else side.text for side in sides)
    plain = _marked_names(plain)
    right = _parse_right_side(text, plain)
    right, offset = _without_offsets(text, plain, right)
    columns: dict[str, None] = {}
    calls: dict[str, Call] = {}
    aliases: dict[str, str] = {}
    functions: set[str] = set()
    for factor in {factor.expr: factor for term in right for factor in term.factors}.values():
        if factor.eval_method.value == "lookup":
            columns[unmarked(factor.expr)] = None
        elif factor.eval_method.value == "python":
            for kind, text_of_part in _term_parts(text, factor.expr, aliases):
                if isinstance(text_of_part, Call):
                    calls[text_of_part.key] = text_of_part
                elif kind == "function":
                    functions.add(text_of_part)
                else:
                    columns[text_of_part] = None
    if not right or not plain.rpartition("~")[2].strip():  # formulaic reads nothing as an intercept
        raise DataError(f"formula={text!r} leaves no coefficient; add 1, the intercept, or a column")
    for name in columns:
        if name in functions:
            raise DataError(f"formula={text!r}: column {name!r} has the name of a function; rename the column")
        for side, what in zip(sides, ("the label is", "trials are", "times are"), strict=True):
            if side is not None and side.columns == (name,):
                raise DataError(f"formula={text!r}: {name!r} stands on both sides; {what} no feature")
        if aliases.get(name, name) != name:
            raise DataError(f"formula={text!r}: columns {name!r} and {aliases[name]!r} are too alike; rename one")
    spelled = {_spelling(str(term)): str(term) for term in right}
    left = [name for side in sides if side is not None for name in side.columns]
    group_terms = tuple(_checked_group(text, group, (*left, *columns), spelled) for group in groups)
    _check_smooths(text, right, calls.values(), group_terms, aliases)
    named = tuple(aliases.items())
    facts = tuple(columns), tuple(calls.values()), named, right, group_terms, trials, offset, exposure
    return Parsed(text, response, *facts)


def _check_smooths(
    text: str, terms: Any, calls: Iterable[Call], groups: Sequence[GroupTerm], aliases: Mapping[str, str]
) -> None:
    """Raise unless each smooth is a term of its own, of a model without groups, whose straight part it alone has."""
    alone, calls = {unmarked(str(other)) for other in terms if len(other.factors) == 1}, list(calls)
    for call in calls:
        if call.function != SMOOTH:
            continue
        term = unmarked(call.term)
        spline = f"cr({unmarked(call.argument)}, df=4, constraints='center')"
        if groups:
            raise DataError(
                f"formula={text!r}: {term} is a smooth, which goes without group terms so far; give a natural spline, "
                f"{spline}"
            )
        others = [other for other in terms if len(other.factors) > 1 and call.term in map(str, other.factors)]
        if others:
            raise DataError(
                f"formula={text!r}: {term} is part of {unmarked(str(others[0]))!r}, and a smooth is a term of its own; "
                f"give f + s({unmarked(call.argument)}, by=f) of a factor f, or a natural spline, {spline}"
            )
        if any(str(other) == call.argument for other in terms):
            raise DataError(f"formula={text!r}: {term} has {call.argument!r} itself as a part; leave that term out")
        for other in calls:
            if other.function in _WITH_LINEAR_PART and other.argument == call.argument and other is not call:
                both = f"{term} and {unmarked(other.term)} both have {call.argument!r} itself as a part"
                raise DataError(f"formula={text!r}: {both}; leave one of them out")
        if isinstance(by := call.arguments[1].get("by"), ast.Name):
            name = aliases.get(by.id, by.id)
            if not any(other == name or other.startswith((f"C({name})", f"C({name},")) for other in alone):
                raise DataError(f"formula={text!r}: {term} has a curve for each level about its mean; add {name!r}")


def _checked_group(
    text: str, group: GroupTerm, columns: tuple[str | None, ...], spelled: Mapping[str, str]
) -> GroupTerm:
    """Return group terms whose effects are spelled as terms; raise unless groups are no feature and effects terms."""
    name = group.column
    if name in columns:
        raise DataError(
            f"formula={text!r}: column {name!r} is a grouping factor, and a feature or the label too; leave one out, "
            "or give a copy of it under another name"
        )
    terms: dict[str, str] = {"1": "1", **spelled}
    blocks: list[tuple[str, ...]] = []
    for shown_block in group.effects:
        effects = [_spelling(_marked_names(effect)) for effect in shown_block]
        for effect, shown in zip(effects, shown_block, strict=True):
            if effect not in terms:
                raise DataError(
                    f"formula={text!r}: {shown!r} varies by {name!r} about a mean that is no term of the formula; add "
                    f"{shown!r}"
                )
            if effect == marked("1"):
                raise DataError(
                    f"formula={text!r}: what varies by {name!r} is named as the intercept is, 1; rename {shown}"
                )
        blocks.append(tuple(dict.fromkeys(terms[effect] for effect in effects)))
        _check_once(text, name, blocks)
    return GroupTerm(name, tuple(blocks))


def _check_once(text: str, name: str, terms: Sequence[tuple[str, ...]]) -> None:
    """Raise if the last of a column's group terms has an effect of one before: only the sum of the two would count."""
    last = terms[-1]
    for term in terms[:-1]:
        if not (twice := [effect for effect in last if effect in term]):
            continue
        rest = [effect for effect in last if effect not in twice]
        if rest and set(twice) < set(term):
            remedy = f"write {term_text(rest, name)} for {term_text(last, name)}"
        else:
            remedy = f"leave {term_text(term if rest else last, name)} out"
        what = "the intercept" if twice[0] == "1" else repr(twice[0])
        raise DataError(
            f"formula={text!r}: {what} varies by {name!r} in two group terms, and rows tell the sum of the two effects "
            f"alone; {remedy}. (1 + x | {name}) has correlated effects, (1 | {name}) + (0 + x | {name}) uncorrelated "
            "ones"
        )


def _spelling(term: str) -> str:
    return re.sub("[ `]", "", term)


def every_column(text: str, names: Sequence[str], taken: Iterable[str]) -> str:
    """Return a formula whose lone dot on the right stands for all other columns: R's y ~ . spelled out.

    `names` are the columns of the data, `taken` those that have a role; the left side, grouping factors and offsets
    take columns too.

    >>> every_column("y ~ . - b + (1 | g)", ["a", "b", "c d", "g", "w", "y"], ["w"])
    'y ~ a + b + `c d` - b + (1 | g)'
    """
    plain, groups = without_group_terms(_expand_in(text))
    sides, _ = _parse_left_side(text, plain)
    used = {part.strip() for group in groups for part in group.column.split(JOINT)} | set(taken)
    used |= {name for side in sides if side is not None for name in side.columns}
    for match in _OFFSET.finditer(text):
        inside, _, _ = _split_at(text[match.end() :], ")")
        used |= set(Expression.of(inside, ()).columns)
    kept = [name for name in names if name not in used]
    if not kept:
        raise DataError(f"formula={text!r}: '.' stands for no column, as all of data have a role; write 1 for none")
    together = " + ".join(name if re.fullmatch(r"[^\W\d][\w.]*", name) else f"`{name}`" for name in kept)

    def spelled(match: re.Match[str]) -> str:
        if match["text"]:
            return match["text"]
        before, after = text[: match.start()].rstrip()[-1:], text[match.end() :].lstrip()[:1]
        return together if before in ("", "~", "+") and after in ("", "+", "-") else f"({together})"

    return _DOT_ALONE.sub(spelled, text)


def has_dot(text: str) -> bool:
    """Whether a formula has a lone dot, which stands for all other columns."""
    return any(not match["text"] for match in _DOT_ALONE.finditer(text))


def _expand_in(text: str) -> str:
    """Return a formula with R's b %in% a as b:a, which it stands for."""
    return _WITHIN.sub(lambda m: m["text"] or ":", text)


def _parse_left_side(text: str, plain: str) -> tuple[tuple[Expression | None, ...], str]:
    """Return response, trials and times, each a column or an expression, and the formula without its left side.

    >>> (k, n, _), rest = _parse_left_side("", "cbind(k, n - k) ~ age")
    >>> k.text, n.text, rest
    ('k', 'n', '~ age')
    >>> _parse_left_side("", "log(y) ~ age")[0][0].columns
    ('y',)
    >>> [side.text for side in _parse_left_side("", "Surv(days / 365.25, died) ~ age")[0][::2]]
    ['died', 'days / 365.25']
    """
    if (match := _COUNTS.match(plain)) is not None:
        one, other = (match[f"{name}1"] or match[f"{name}2"] for name in ("successes", "trials"))
        return (_parse_response(one), _parse_response(other), None), f"~{plain[match.end() :]}"
    left, mark, right = _split_at(plain, "~")
    if not mark or not left.strip():
        return (None, None, None), plain
    left = left.strip()
    try:
        if (both := _SURV.fullmatch(left)) is not None:
            time, comma, event = (part.strip() for part in _split_at(both["both"], ","))
            # without events all times end with one: the left side is 1 by a function of times
            return (_parse_response(event if comma else left), None, _parse_response(time)), f"~{right}"
        if "Surv(" in left:
            raise DataError(left)
        if (both := _CBIND.fullmatch(left)) is None:
            return (_parse_response(left), None, None), f"~{right}"
        one, comma, other = (part.strip() for part in _split_at(both["both"], ","))
        if not comma:
            raise DataError(left)
        less = _TOTAL.fullmatch(other)
        minus = less is not None and less["successes"].strip("`") == one.strip("`")
        trials = less["trials"] if less is not None and minus else f"{one} + ({other})"
        return (_parse_response(one), _parse_response(trials), None), f"~{right}"
    except DataError:
        if "Surv(" in left:
            raise DataError(
                f"formula={text!r}: its left side must be Surv(time, event) alone, where the event is a column of 1 or "
                "True and 0 or False, or arithmetic on one, such as status - 1 of 1 and 2; times that begin late, or "
                "are known by interval, have a row for each period and family='cloglog'"
            ) from None
        raise DataError(
            f"formula={text!r}: its left side must be the column of the labels alone, 'k | trials(n)' or "
            f"'cbind(k, n - k)' of counts, 'Surv(time, event)' of times, or an expression of numbers, such as log(y); "
            f"it is {left!r}"
        ) from None


def _parse_response(text: str) -> Expression:
    """Return a response, or trials: a column, in backticks or not, or an expression; raise if it is neither."""
    if re.fullmatch(_NAME, text):
        return Expression(text.strip("`"), (text.strip("`"),))
    expression = Expression.of(text, (), "the left side")
    if expression.plain:  # that Python does not read
        raise DataError(f"{text!r} cannot be read")
    return expression


def _split_at(text: str, mark: str) -> tuple[str, str, str]:
    """Return what stands before the first mark outside parentheses and quotes, the mark, and what follows; else all."""
    depth, quote = 0, ""
    for place, letter in enumerate(text):
        if quote or letter in "`'\"":
            quote = "" if letter == quote else quote or letter
        elif letter == mark and depth == 0:
            return text[:place], mark, text[place + 1 :]
        else:
            depth += (letter == "(") - (letter == ")")
    return text, "", ""


def _without_offsets(text: str, plain: str, right: Any) -> tuple[Any, str | None]:
    """Return the terms without those that are offset(...), and the sum of these."""
    from formulaic import SimpleFormula

    written = len(_OFFSET.findall(plain))
    if not written:
        return right, None
    offsets = [str(term)[len("offset(") : -1] for term in right if _OFFSET.match(str(term)) and len(term.factors) == 1]
    kept = [term for term in right if not (_OFFSET.match(str(term)) and len(term.factors) == 1)]
    if len(offsets) != written or any(_OFFSET.search(text_of_term) for text_of_term in [*offsets, *map(str, kept)]):
        raise DataError(
            f"formula={text!r}: offset(...) must be a term of its own, once, as in y ~ x + offset(log(years)); in "
            "products, calls and subtractions it means nothing"
        )
    return SimpleFormula(kept, _ordering=right.ordering), unmarked(" + ".join(offsets))


def _parse_right_side(text: str, plain: str) -> Any:
    """Return the terms of a formula without left side and group terms."""
    from formulaic import Formula, SimpleFormula
    from formulaic.errors import FormulaicError
    from formulaic.parser.algos.tokenize import tokenize

    try:
        words = [token.token for token in tokenize(plain) if token.kind is token.Kind.OPERATOR]
        if "|" in words:
            raise DataError(
                f"formula={text!r} has a bar outside a group term; write one as (1 | g), and counts as k | trials(n)"
            )
        formula = Formula(plain)
    except (FormulaicError, SyntaxError, ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        if "`.` operator" in str(error):
            every = "give the formula with its rows, or name the columns"
            raise DataError(f"formula={text!r}: '.' stands for all columns of a table; {every}") from None
        reason = re.sub(r"\x1b\[[0-9;]*m|[⧛⧚]", "", str(error).splitlines()[0]) if str(error) else "no formula"
        marked = re.search(r"⧛(?:\x1b)?\[[0-9;]*m(.*?)(?:\x1b)?\[0m⧚", str(error))
        place = f", at {marked[1]!r}" if marked else ""
        raise DataError(f"formula={text!r} cannot be read{place}: {reason.rstrip('.')}") from None
    if not isinstance(formula, SimpleFormula):
        raise DataError(f"formula={text!r} has several parts; write label ~ terms")
    return formula


def _term_parts(text: str, term: str, aliases: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield the columns, functions and learning calls of a term, and check everything in it."""
    from formulaic.utils.code import format_expr, sanitize_variable_names

    def refused(what: str) -> DataError:
        served = ", ".join(sorted({*PLAIN, *MOMENTS, *BASES, "C"}))
        served += "; a spline is bs(x, df=4), a natural one cr(x, df=4, constraints='center')" if "(" in term else ""
        return DataError(f"formula={text!r}: term {term!r} has {what}; terms are made of columns, numbers and {served}")

    aliases_of_part: dict[str, str] = {}
    try:
        tree = ast.parse(sanitize_variable_names(term, {}, aliases_of_part), mode="eval")
    except (SyntaxError, ValueError) as error:
        raise DataError(f"formula={text!r}: term {term!r} cannot be read: {error}") from None
    aliases |= {alias: unmarked(name) for alias, name in aliases_of_part.items()}
    named: dict[int, str] = {}  # nodes that name a function or a coding, and which
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _function(node.func)
            if name is None or name not in PLAIN | LEARNING | CODINGS | CONTR:
                raise refused(f"the call {ast.unparse(node.func)!r}")
            named[id(node.func)] = name
            if name in ("C", SMOOTH) and node is not tree.body:
                raise refused(f"{name}(...) inside another expression")
            if name == SMOOTH:
                given = {word.arg: word.value for word in node.keywords}
                knots = [*node.args[1:], *([given["k"]] if "k" in given else [])]
                known = all(isinstance(knot, ast.Constant) for knot in knots)
                by = isinstance(given.get("by", node.func), ast.Name)
                if len(knots) > 1 or not known or not by or not given.keys() <= {"k", "by"}:
                    what = "something other than one column, its number of knots, and a factor, s(x, k=10, by=f)"
                    raise refused(what)
            if name == SMOOTH and "/" in term:
                raise refused("a quotient, which parameters have no names for; make it a column")
            if name == "C":
                for coding in [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "contrasts")]:
                    if (function := _function(coding)) is not None and function in CODINGS | CONTR:
                        named[id(coding)] = function
            if name in LEARNING:
                _check_argument(text, name, node)
                inside = (inner.func for inner in ast.walk(node.args[0]) if isinstance(inner, ast.Call))
                if any(_function(function) in LEARNING for function in inside):
                    raise refused(f"{name}(...) of what is itself learnt from the data")
                yield "call", Call(name, format_expr(node), ast.unparse(node.args[0]), term)
    for node in ast.walk(tree):
        if id(node) in named:  # such as np.log, named above
            if isinstance(node, ast.Name):
                yield "function", node.id
        elif isinstance(node, ast.Name) and not _is_part_of_function(node, tree, named):
            yield "column", unmarked(aliases_of_part.get(node.id, node.id))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and not _is_small_exponent(node.right):
            raise refused(f"the power {ast.unparse(node)!r}")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
            raise refused(f"{ast.unparse(node)!r}, and powers are written a**2 inside a call")
        elif not isinstance(node, (*_HARMLESS, ast.Call)):
            raise refused(f"{ast.unparse(node)!r}")


def _check_argument(text: str, name: str, call: ast.Call) -> None:
    """Raise unless what a function learns from has a column."""
    given = call.args[0] if call.args else None
    parts = [] if given is None else list(ast.walk(given))
    functions = {id(part) for one in parts if isinstance(one, ast.Call) for part in ast.walk(one.func)}
    if any(isinstance(part, ast.Name) and id(part) not in functions for part in parts):
        return
    quoted = isinstance(given, ast.Constant) and isinstance(given.value, str)
    remedy = f"without quotes, {name}({given.value})" if quoted else f"of a column x, {name}(x)"  # type: ignore[union-attr]
    raise DataError(f"formula={text!r}: {ast.unparse(call)} learns from a column, and names none; write it {remedy}")


def _function(node: ast.AST) -> str | None:
    """Return the name of a function: "log" of np.log, "contr.sum" of contr.sum."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        if node.value.id == "np" and node.attr in PLAIN - {"I"}:
            return node.attr
        if node.value.id == "contr":
            return f"contr.{node.attr}"
    return None


def _is_part_of_function(name: ast.Name, tree: ast.AST, named: dict[int, str]) -> bool:
    """Whether a name is the np or contr of an attribute that names a function."""
    return any(isinstance(node, ast.Attribute) and id(node) in named and node.value is name for node in ast.walk(tree))


def _is_small_exponent(node: ast.AST) -> bool:
    """Whether an exponent is a number of moderate size."""
    try:
        return abs(float(ast.literal_eval(node))) <= _MAX_POWER
    except (ValueError, TypeError, SyntaxError):
        return False
