"""The page of messages: every text that the package raises or warns with, read from its code, in order of topic."""

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from bayescore.validation import DataError

ROOT = Path(__file__).resolve().parents[2]

# a heading, what helps with all of its messages, and the files whose messages it has; the first that fits counts
TOPICS = (
    (
        "Formula",
        "See [formula syntax](../how-to/formulas.md), and for group terms [random effects](../how-to/groups.md).",
        ("data/formula_", "data/factors.py", "data/smooths.py"),
    ),
    (
        "Groups",
        "See [groups](../how-to/groups.md).",
        ("data/groups.py", "coresets/multilevel.py", "samplers/groups.py", "models/groups/"),
    ),
    (
        "Label, weights, offset, trials and exposure",
        "See [counts](../how-to/counts.md), [numbers](../how-to/numbers.md) and [surveys](../how-to/survey.md).",
        ("data/roles.py", "data/responses.py", "data/survey.py"),
    ),
    (
        "Rows and where they are read from",
        "See [sources](../how-to/table.md), [Parquet](../how-to/parquet.md), [databases](../how-to/database.md), "
        "[Dask](../how-to/cluster.md) and [missing values](../how-to/missing.md).",
        ("data/", "validation.py", "datasets.py", "tables.py"),
    ),
    ("Families", "See [models and families](../how-to/models.md).", ("families/",)),
    (
        "Priors",
        "See [priors](../how-to/priors.md), and [separated data](../how-to/separated.md), where priors matter most.",
        ("priors/", "fitting/prior.py"),
    ),
    (
        "Updates and streams",
        "See [monthly files](../how-to/monthly.md) and [streams](../how-to/stream.md).",
        ("fitting/update.py", "coresets/stream.py", "coresets/merge_reduce.py", "coresets/online.py"),
    ),
    ("Files", "See [reproducing results](../how-to/reproduce.md).", ("files.py", "fitting/files.py")),
    (
        "Coresets",
        "[Choosing a method and a size](../how-to/choose.md) says what serves which data.",
        ("coresets/",),
    ),
    (
        "Sampling and models",
        "See [models of your own](../how-to/own-model.md).",
        ("samplers/", "models/"),
    ),
    (
        "Certificate, comparisons and evidence",
        "[Not certified: what now?](../how-to/not-certified.md) goes through the causes.",
        ("diagnostics/", "report/"),
    ),
    (
        "Clusters, strata and domains",
        "See [surveys](../how-to/survey.md).",
        ("fitting/clusters.py",),
    ),
    (
        "Fits and their answers",
        "See [fits](../how-to/fit.md), and where draws are refused [not certified](../how-to/not-certified.md).",
        ("fitting/",),
    ),
    ("Estimators", "See [scikit-learn](../users/scikit-learn.md).", ("estimators.py",)),
    ("Command line", "See [the command line](command-line.md).", ("cli.py", "__main__.py", "demo.py")),
    ("Clustering and papers", "See [papers](papers.md).", ("clustering/", "papers/", "compiled.py")),
)
FURTHER = (  # what a message is about, and the page that says more
    (r"\bseparat(?:ed|es|ion)\b.*label|labels .*separated", "separated data", "../how-to/separated.md"),
    (r"not certified|Pareto k|chains have not mixed|max_gradients", "not certified", "../how-to/not-certified.md"),
    (r"missing='drop'|impute", "missing values", "../how-to/missing.md"),
    (r"overdispersed", "counts", "../how-to/counts.md"),
)
# never seen by users: what is raised here is caught in the package, which then goes another way or says more
CAUGHT = {
    "ArithmeticError": "the search for a centre fails, and the build takes another way",
    "AttributeError": "a module is asked for a name that it lacks",
    "LinAlgError": "a step of a search is refused",
    "StaysError": "draws are certified where they are",
    "SystemExit": "the command line ends",
    "TypingError": "numba compiles a family or a prior at its registration, which says more",
    "_UnknownLevel": "the error that names the row replaces it",
}


class Message(NamedTuple):
    """A text that is raised or warned with: where, as what, and its fixed parts, values as three dots."""

    file: str
    line: int
    kind: str
    text: str


def filled_in(part: ast.FormattedValue) -> str:
    """Return dots for a value; nothing for the place of a page, which the entry links."""
    return "" if ast.unparse(part.value).startswith("see(") else "..."


def fixed(node: ast.expr | None) -> str | None:
    """Return the fixed parts of a literal text, with dots for what is filled in; None of anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else filled_in(part) for part in node.values]
        return re.sub(r"\.{4,}", "...", "".join(map(str, parts)))
    return None


def literals(node: ast.expr | None, scope: ast.AST, module: ast.Module) -> list[str]:
    """Return the texts that an argument can be: a literal, a choice, a sum, a variable or a function of the module."""
    if (text := fixed(node)) is not None:
        return [text]
    if isinstance(node, ast.IfExp):
        return [*literals(node.body, scope, module), *literals(node.orelse, scope, module)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*literals(node.left, scope, module)]
    if isinstance(node, ast.Name):
        set_here = [
            each.value
            for place in (scope, module)
            for each in (ast.walk(place) if place is scope else module.body)
            if isinstance(each, ast.Assign) and any(ast.unparse(name) == node.id for name in each.targets)
        ]
        return [text for value in set_here if (text := fixed(value)) is not None]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        made = [each for each in module.body if isinstance(each, ast.FunctionDef) and each.name == node.func.id]
        returns = [each.value for function in made for each in ast.walk(function) if isinstance(each, ast.Return)]
        return [text for value in returns if (text := fixed(value)) is not None]
    return []


@cache
def messages(root: Path = ROOT / "bayescore") -> list[Message]:
    """Return every text of `raise` and `warn` in the package, but for those that are caught in it."""
    found = []
    for path in sorted(root.rglob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        nodes = list(ast.walk(module))
        functions = [each for each in nodes if isinstance(each, ast.FunctionDef)]
        for node in nodes:
            call, kind = None, ""
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                call, kind = node.exc, ast.unparse(node.exc.func).rpartition(".")[2]
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("warn", "warnings.warn"):
                call, kind = node, "warning"
            if call is None or not call.args or kind in CAUGHT:
                continue
            around = [each for each in functions if each.lineno <= node.lineno <= (each.end_lineno or 0)]
            for text in literals(call.args[0], around[-1] if around else module, module):
                found.append(Message(path.relative_to(root).as_posix(), node.lineno, kind, " ".join(text.split())))
    return found


def says_something(text: str) -> bool:
    """Whether a text has three words of its own besides what is filled in: else it passes another message on."""
    return len(re.findall(r"[A-Za-z]{2,}", text)) >= 3


def parted(text: str) -> tuple[str, str]:
    """Return cause and remedy of a message, parted at its first semicolon or colon that has a statement before it."""
    for mark in re.finditer(r"(?<=\S)[;:] (?=\S)", text):
        before, after = text[: mark.start()], text[mark.end() :]
        if says_something(before) and (mark[0] == "; " or says_something(after)):
            return before, after
    return text, ""


def escaped(text: str) -> str:
    """Return a text as Markdown that shows it as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#|~$^])", r"\\\1", text)


def full_stop(text: str) -> str:
    """Return a text with a full stop or dots at its end."""
    return text if text.endswith((".", "?")) else f"{text}."


def shown_kind(kind: str) -> str:
    """Return as what a message is raised: the built-in class; nothing of a DataError, which most are."""
    if kind == "warning":
        return "a warning"
    if isinstance(vars(builtins).get(kind), type):
        return kind
    classes = {each.__name__: each for each in subclasses(Exception) if each.__module__.startswith("bayescore")}
    if kind not in classes or issubclass(classes[kind], DataError):
        return ""
    return next(base.__name__ for base in classes[kind].__mro__ if base.__module__ == "builtins")


def subclasses(kind: type) -> Iterator[type]:
    """Yield the classes derived from one."""
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


def sentence(text: str) -> str:
    """Return a remedy as Markdown with a capital letter, unless it begins with code, and a full stop."""
    first = text.split()[0]
    return full_stop(escaped(text if re.search(r"[=(_.]", first) else text[:1].upper() + text[1:]))


def topic(file: str) -> str:
    """Return the heading under which the messages of a file stand."""
    return next(heading for heading, _, prefixes in TOPICS if file.startswith(prefixes))


def page() -> str:
    """Return the topics in Markdown: messages sorted by their words, each with what to do and where to read on."""
    found: dict[str, dict[str, Message]] = {heading: {} for heading, _, _ in TOPICS}
    for message in messages():
        if says_something(message.text):
            found[topic(message.file)].setdefault(message.text, message)
    lines = []
    for heading, helps, _ in TOPICS:
        lines += [f"## {heading}", "", helps, ""]
        for text, message in sorted(found[heading].items(), key=lambda pair: re.sub(r"\W+", " ", pair[0]).lower()):
            cause, remedy = parted(text)
            further = [f"[{title}]({at})" for about, title, at in FURTHER if re.search(about, text)]
            after = [sentence(remedy)] if remedy else []
            after += [f"See {further[0]}."] if further else []
            after += [f"({kind})"] if (kind := shown_kind(message.kind)) else []
            lines += [" ".join([f"- **{full_stop(escaped(cause))}**", *after])]
        lines.append("")
    return "\n".join(lines)
