"""Fifty small changes of the package, one at a time, and whether the quick tests notice: ``python -m tests.mutants``.

``draw`` fills the list in `tests/mutants.json`, ``reach`` records which functions each test file enters, and ``run``
tries each mutant of the list on the files that enter its function. A mutant is named by its function, the text of its
statement and where in that it changes something, so that it is the same one after code has moved to another file. A
private name may have got a suffix since.
"""

import argparse
import ast
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from tests.mutations import change, functions, is_compiled, replaced, sites, statements, text
from tests.reach import ROOT, TREE, reach

LIST = Path(__file__).with_suffix(".json")
KINDS = ("sign", "bound", "swap", "drop")
COMPILED = 0.24  # share of mutants in compiled functions
PER_FUNCTION = 2
BATCH = 2  # files of the first process of a mutant; each further one takes twice as many
START = 60.0  # s: what a process may take before its tests
COMPILING = 300.0  # s: the same where kernels are compiled anew

SKIPPED_FILES = re.compile(r"/report/|/(__main__|demo|plots|progress|listing|private|mechanisms|cli|parser)\.py$")
SKIPPED_FUNCTIONS = re.compile(r"__repr__|__str__|html|message|describe|caption|title|plot|draw_ax")
SKIPPED_STATEMENTS = re.compile(r"block|chunk|memory|bytes|second|timeout|progress|cpu|worker|\bax\b|\baxes\b|\bplt\b")


# --- the package that is changed


class Package:
    """The source of a tree's package, parsed, with the places where names of functions and kernels stand."""

    def __init__(self, root: Path) -> None:
        paths = sorted((root / "bayescore").rglob("*.py"))
        self.sources = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}
        self.parsed: dict[str, ast.Module] = {}

    @cached_property
    def modules(self) -> dict[str, ast.Module]:
        """All modules by path."""
        return {path: self.module(path) for path in self.sources}

    @cached_property
    def homes(self) -> dict[str, set[str]]:
        """The paths of the modules that define functions, by the functions' names."""
        homes: dict[str, set[str]] = defaultdict(set)
        for path, source in self.sources.items():
            for name in re.findall(r"^ *def (\w+)", source, flags=re.MULTILINE):
                homes[name].add(path)
        return homes

    def module(self, path: str) -> ast.Module:
        """Return a module's syntax, parsed when it is first wanted."""
        if path not in self.parsed:
            self.parsed[path] = ast.parse(self.sources[path])
        return self.parsed[path]

    def functions(self, paths: Iterable[str]) -> Iterator[tuple[str, str, ast.FunctionDef]]:
        """Yield path, qualified name and definition of the functions of modules."""
        for path in sorted(paths):
            for name, function in functions(self.module(path)):
                yield path, name, function

    def place(self, mutant: dict[str, Any]) -> tuple[str, str, ast.FunctionDef, Any, Any]:
        """Return path, name and definition of a mutant's function, the node it changes and what that becomes.

        Raise `LookupError` if it is not exactly one.
        """
        last = re.compile(loosened(mutant["function"].rpartition(".")[2]))
        homes = {path for name, paths in self.homes.items() if last.fullmatch(name) for path in paths}
        for pattern in (re.escape, loosened):
            places = [
                (path, name, function, same)
                for path, name, function in self.functions(homes)
                if re.fullmatch(pattern(mutant["function"]), name)
                and (same := [s for s in statements(function) if re.fullmatch(pattern(mutant["statement"]), text(s))])
            ]
            if len(places) == 1 and mutant["occurrence"] < len(places[0][3]):
                path, name, function, same = places[0]
                changes = sites(same[mutant["occurrence"]])[mutant["site"] : mutant["site"] + 1]
                if changes and changes[0][0] == mutant["kind"]:
                    _, before, after = changes[0]
                    if re.fullmatch(loosened(mutant["change"]), change(before, after)):
                        return path, name, function, before, after
        raise LookupError(f"{mutant['function']}: {mutant['statement']}")

    def mutated(self, mutant: dict[str, Any]) -> tuple[str, str]:
        """Return the path and the changed source of the file that a mutant changes."""
        path, _, _, before, after = self.place(mutant)
        return path, replaced(self.sources[path], before, after)

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """The names that each module imports from others."""
        return {
            path: {a.asname or a.name for n in ast.walk(module) if isinstance(n, ast.ImportFrom) for a in n.names}
            for path, module in self.modules.items()
        }

    @cached_property
    def mentions(self) -> list[tuple[str, str | None, set[str], set[str], dict[str, set[str]]]]:
        """Per kernel, and per module for the rest of its code: path, kernel's name, names, methods called, aliases.

        Names are those that stand alone, and with a dot before them those taken from another, as in `module.name`.
        """
        entries = []
        for path, module in self.modules.items():
            rest = [node for node in module.body if not (isinstance(node, ast.FunctionDef) and is_compiled(node))]
            kernels = [(n.name, [n]) for n in module.body if isinstance(n, ast.FunctionDef) and is_compiled(n)]
            for name, nodes in [*kernels, (None, rest)]:
                inside = [node for each in nodes for node in ast.walk(each)]
                names = {node.id for node in inside if isinstance(node, ast.Name)}
                taken = [n for n in inside if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)]
                names |= {f".{n.attr}" for n in taken if n.value.id in self.imports[path]}  # type: ignore[attr-defined]
                methods = {n.func.attr for n in inside if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)}
                aliases: dict[str, set[str]] = defaultdict(set)  # rows = staticmethod(logistic_rows) in a class
                for member in [m for n in inside if isinstance(n, ast.ClassDef) for m in n.body]:
                    if isinstance(member, ast.Assign) and isinstance(member.targets[0], ast.Name):
                        for node in ast.walk(member.value):
                            if isinstance(node, ast.Name):
                                aliases[node.id].add(member.targets[0].id)
                entries.append((path, name, names, methods, aliases))
        return entries

    def users(self, path: str, kernel: str) -> tuple[set[str], set[str]]:
        """Return the modules whose kernels may hold a kernel's code, and those that call it or a user of it, as paths.

        A kernel may also get another as an argument, from a module that knows both.
        """
        waiting, known, stale, callers = [(path, kernel)], set(), {path}, set()
        while waiting:
            home, name = waiting.pop()
            if (home, name) in known:
                continue
            known.add((home, name))
            for where, user, names, methods, aliases in self.mentions:
                by_name = f".{name}" in names or (name in names and (where == home or name in self.imports[where]))
                if by_name or (not home and name in methods):
                    if user is None:
                        callers.add(where)
                        waiting += [("", alias) for alias in aliases.get(name, ()) if by_name]
                    else:
                        stale.add(where)
                        waiting.append((where, user))
        given = {name for where in callers for name in self.imports[where]}
        kernels = {(where, user) for where, user, *_ in self.mentions if user is not None}
        return stale | {where for where, user in kernels if user in given or Path(where).stem in given}, callers


def loosened(code: str) -> str:
    """Return the pattern of code whose private names may have got a suffix."""
    return re.sub(r"(?<!\w)(_[A-Za-z]\w*)", r"\1(?:_\\w+)?", re.escape(code))


def room(path: str) -> str:
    """Return the room of a file: its folder in the package, or "top"."""
    return path.split("/")[1] if path.count("/") > 1 else "top"


# --- draw


def identity(mutant: dict[str, Any]) -> str:
    """Return what tells a mutant from all others."""
    return json.dumps([mutant[name] for name in ("function", "statement", "occurrence", "kind", "site", "change")])


def candidates(package: Package) -> Iterator[dict[str, Any]]:
    """Yield all mutants that may be drawn; those of functions and statements that a name tells apart."""
    paths = {
        alias.asname or alias.name: node.module
        for module in package.modules.values()
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("bayescore")
        for alias in node.names
        if f"{node.module}.{alias.name}".replace(".", "/") + ".py" in package.modules
    }
    same = Counter(
        (name, words) for _, name, f in package.functions(package.sources) for words in {text(s) for s in statements(f)}
    )
    for path, name, function in package.functions(package.sources):
        if SKIPPED_FILES.search(path) or SKIPPED_FUNCTIONS.search(name):
            continue
        seen: Counter[str] = Counter()
        for statement in statements(function):
            words = text(statement)
            names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            moves = any(n in paths for n in names) or "f'" in words or 'f"' in words
            if not (moves or SKIPPED_STATEMENTS.search(words) or same[name, words] > 1):
                for site, (kind, before, after) in enumerate(sites(statement)):
                    yield {
                        "function": name, "statement": words, "occurrence": seen[words], "kind": kind, "site": site,
                        "change": change(before, after), "room": room(path), "compiled": is_compiled(function),
                    }  # fmt: skip
            seen[words] += 1


def draw(package: Package, listed: dict[str, Any], count: int, seed: int) -> list[dict[str, Any]]:
    """Return the mutants listed that are still in the package, and others drawn in addition, `count` in all.

    Rooms have shares by their lines, kinds equal ones, and compiled functions `COMPILED`. None is drawn that is in the
    list of those passed over.
    """
    lines: Counter[str] = Counter()
    for path, source in package.sources.items():
        if not SKIPPED_FILES.search(path):
            lines[room(path)] += source.count("\n")
    drawn = [mutant for mutant in listed["mutants"] if is_in(package, mutant)]
    passed = {identity(mutant) for mutant in listed["passed_over"]}
    order = sorted(candidates(package), key=lambda m: hashlib.sha256(f"{seed}{identity(m)}".encode()).digest())
    order = [mutant for mutant in order if identity(mutant) not in passed]
    while len(drawn) < count:
        rooms = Counter(m["room"] for m in drawn)
        full = Counter(m["function"] for m in drawn)
        compiled = sum(m["compiled"] for m in drawn) < COMPILED * (len(drawn) + 1)
        taken = {(m["function"], m["statement"]) for m in drawn}
        free = [
            m
            for m in order
            if full[m["function"]] < PER_FUNCTION and (m["function"], m["statement"]) not in taken
        ]  # fmt: skip
        free = [m for m in free if m["compiled"] == compiled]
        wanted = max({m["room"] for m in free}, key=lambda r: (lines[r] * count / lines.total() - rooms[r], r))
        kinds = Counter(m["kind"] for m in drawn) + Counter(m["kind"] for m in drawn if m["room"] == wanted)
        drawn.append(min((m for m in free if m["room"] == wanted), key=lambda m: kinds[m["kind"]]) | {"why": ""})
    return drawn


def write(listed: dict[str, Any]) -> None:
    """Write the list, a mutant on a line."""
    lists = {
        name: ",\n".join(f"  {json.dumps(mutant, ensure_ascii=False)}" for mutant in mutants)
        for name, mutants in listed.items()
    }
    body = ",\n".join(f' "{name}": [\n{lines}\n ]' if lines else f' "{name}": []' for name, lines in lists.items())
    LIST.write_text(f"{{\n{body}\n}}\n", encoding="utf-8")


def is_in(package: Package, mutant: dict[str, Any]) -> bool:
    """Say whether a mutant can be made of a package."""
    try:
        return bool(package.place(mutant))
    except LookupError:
        return False


# --- run


class Trial:
    """What mutants are tried with: copies of the tree, what tests reach, and which tests are run."""

    def __init__(self, scratch: Path, entered: dict[str, list[str]], chosen: list[str] | None) -> None:
        self.scratch, self.package = scratch, Package(ROOT)
        self.entered = {file: set(names) for file, names in entered.items() if file != "import"}
        self.imported = set(entered.get("import", ()))
        self.chosen: dict[str, list[str]] | None = None if chosen is None else defaultdict(list)
        for node in chosen or ():
            self.chosen[node.partition("::")[0]].append(node)
        record = json.loads((ROOT / "tests" / "durations.json").read_text(encoding="utf-8"))["files"]
        self.seconds = {file: record.get(file, {}).get("quick", 0.0) for file in self.entered}
        ignored = shutil.ignore_patterns(".git", ".venv*", ".*_cache", "_build", ".references", ".quick")
        shutil.copytree(ROOT, scratch / "clean", symlinks=True, ignore=ignored)
        if (ROOT.parent / "shared").exists():
            (scratch / "shared").symlink_to((ROOT.parent / "shared").resolve())
        if not any((scratch / "clean").rglob("*.nbi")):
            print("no kernel is compiled in this tree: run some tests first, or each mutant waits for all", flush=True)

    def check(self) -> None:
        """Exit unless the tree passes its cheapest tests as it is: else each mutant would seem to be caught."""
        files = self.entered.keys() if self.chosen is None else self.entered.keys() & self.chosen.keys()
        file = min((each for each in files if (ROOT / each).is_file()), key=lambda each: (self.seconds[each], each))
        outcome, by, _ = self.tests(self.scratch / "clean", [file], START)
        if outcome != "survived":
            sys.exit(
                f"{file} is {outcome} by {by} without a mutant: mend that, or run another Python; nothing was tried"
            )

    def files(self, path: str, name: str, compiled: bool) -> list[str]:
        """Return the test files that reach a function, the cheapest and most specific first."""
        if compiled:
            _, callers = self.package.users(path, name)
            word = re.compile(rf"\b{name}\b")
            files = {
                file
                for file, names in self.entered.items()
                if f"{path}::{name}" in names  # what Python calls is seen, what kernels call is not
                or any(each.partition("::")[0] in callers for each in names)
                or word.search((ROOT / file).read_text(encoding="utf-8"))
            }
        elif f"{path}::{name}" in self.imported:
            files = set(self.entered)
        else:
            files = {file for file, names in self.entered.items() if f"{path}::{name}" in names}
        files -= {"tests/test_mutants.py"}  # which no mutated tree passes
        if self.chosen is not None:
            files &= self.chosen.keys()
        return sorted(files, key=lambda file: (len(self.entered[file]) * (self.seconds[file] + 0.5), file))

    def attempt(self, number: int, mutant: dict[str, Any]) -> dict[str, Any]:
        """Try a mutant in a copy of its own; return what became of it."""
        path, name, function, before, after = self.package.place(mutant)
        compiled = is_compiled(function)
        tree = self.scratch / str(number)
        shutil.copytree(self.scratch / "clean", tree, symlinks=True)
        (tree / path).write_text(replaced(self.package.sources[path], before, after), encoding="utf-8")
        if compiled:  # numba does not notice changes of functions in other files
            for user in self.package.users(path, name)[0]:
                for stale in (tree / user).parent.glob(f"__pycache__/{Path(user).stem}.*.nb[ic]"):
                    stale.unlink()
        began = time.monotonic()
        outcome: dict[str, Any] = {"outcome": "survived", "by": None, "tests": 0}
        files, size = self.files(path, name, compiled), BATCH
        while files and outcome["outcome"] == "survived":
            batch, files, size = files[:size], files[size:], 2 * size
            outcome["outcome"], outcome["by"], tests = self.tests(tree, batch, COMPILING if compiled else START)
            outcome["tests"] += tests
        shutil.rmtree(tree)
        return {"mutant": identity(mutant), "number": number, **outcome, "seconds": round(time.monotonic() - began, 1)}

    def tests(self, tree: Path, files: list[str], start: float) -> tuple[str, str | None, int]:
        """Run test files in a tree up to the first failure: outcome, the test that failed, and how many ran."""
        nodes = files if self.chosen is None else [node for file in files for node in self.chosen[file]]
        (tree / "nodes.txt").write_text("\n".join(nodes), encoding="utf-8")
        environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(tree), TREE: str(tree)}
        options = ["-x", "-m", "not slow", "-p", "no:cacheprovider", "-p", "tests.reach", "@nodes.txt"]
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options], cwd=tree, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=start + 10 * sum(self.seconds[file] for file in files))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            return "timed out", files[0] if len(files) == 1 else f"one of {files}", 0
        last = (said.splitlines() or [""])[-1]  # such as "1 failed, 5 passed in 2.10s"
        ran = sum(int(n) for n, _ in re.findall(r"(\d+) (passed|failed|errors?)\b", last))
        if process.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return "survived", None, ran
        if failed := re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", said, flags=re.MULTILINE):
            return "caught", failed[1], ran
        if process.returncode < 0 or "ImportError while loading conftest" in said:
            return "caught", f"no test: {last}", ran
        raise RuntimeError(f"pytest ended with {process.returncode}:\n{said}")


def table(listed: list[dict[str, Any]], results: list[dict[str, Any]]) -> str:
    """Return how many mutants were caught of those tried, by kind and room, and the survivors."""
    by = {identity(mutant): (n, mutant) for n, mutant in enumerate(listed, 1)}
    tried = [(*by[result["mutant"]], result) for result in results if result["mutant"] in by]
    lines = []
    for heading, label in (
        ("kind", lambda m: m["kind"]),
        ("room", lambda m: m["room"]),
        ("code", lambda m: "compiled" if m["compiled"] else "Python"),
        ("all", lambda _: ""),
    ):
        drawn = Counter(label(m) for _, m, _ in tried)
        caught = Counter(label(m) for _, m, result in tried if result["outcome"] != "survived")
        lines += [f"{heading:<6}{name:<14}{caught[name]:>3} / {drawn[name]}" for name in sorted(drawn)]
    for n, mutant, result in sorted(tried, key=lambda each: each[0]):
        if result["outcome"] == "survived":
            lines.append(f"survived {result['tests']} tests: {n}. {mutant['function']}: {mutant['change']}")
    return "\n".join(lines)


def run(arguments: argparse.Namespace) -> None:
    """Try the mutants that have no result yet, each result a line of a file, and print the table."""
    listed = json.loads(LIST.read_text(encoding="utf-8"))["mutants"]
    numbers = [int(n) for n in arguments.only.split(",")] if arguments.only else range(1, len(listed) + 1)
    arguments.results.touch()
    known = [json.loads(line) for line in arguments.results.read_text(encoding="utf-8").splitlines()]
    left = [n for n in numbers if identity(listed[n - 1]) not in {result["mutant"] for result in known}]
    chosen = arguments.tests and arguments.tests.read_text(encoding="utf-8").split("\n")
    lock = threading.Lock()

    def attempt(number: int) -> None:
        result = trial.attempt(number, listed[number - 1])
        with lock, arguments.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
            known.append(result)
            print(f"{number}. {result['outcome']} in {result['seconds']} s: {result['by']}", flush=True)

    if left:
        entered = json.loads(arguments.reach.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
            trial = Trial(Path(scratch).resolve(), entered, chosen and [node for node in chosen if node.strip()])
            trial.check()
            with ThreadPoolExecutor(arguments.workers) as pool:
                list(pool.map(attempt, left))
    print(table(listed, known))


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw", help=f"fill {LIST.name}")
    drawing.add_argument("--count", type=int, default=50)
    drawing.add_argument("--seed", type=int, default=1)
    temporary = Path(tempfile.gettempdir())
    reaching = commands.add_parser("reach", help="record what test files enter; further arguments go to pytest")
    reaching.add_argument("--output", type=Path, default=temporary / "bayescore-reach.json")
    running = commands.add_parser("run", help="try the mutants")
    running.add_argument("--reach", type=Path, default=temporary / "bayescore-reach.json")
    running.add_argument("--only", help="numbers of mutants, such as 3,14; by default all")
    running.add_argument("--results", type=Path, default=temporary / "bayescore-mutants.jsonl")
    running.add_argument("--workers", type=int, default=2)
    running.add_argument("--tests", type=Path, help="a file of node ids: no other tests are run")
    arguments, rest = parser.parse_known_args()
    if rest and arguments.command != "reach":
        parser.error(f"unknown arguments {rest}")
    if arguments.command == "reach":
        return reach(arguments.output.resolve(), rest)
    if arguments.command == "run":
        run(arguments)
    else:
        known = json.loads(LIST.read_text(encoding="utf-8")) if LIST.exists() else {"mutants": [], "passed_over": []}
        known["mutants"] = draw(Package(ROOT), known, arguments.count, arguments.seed)
        write(known)
    return 0


if __name__ == "__main__":
    sys.exit(main())
