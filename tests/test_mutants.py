import ast
import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from tests import mutants, mutations

TOY = '''
@jit
def kernel(a, b):
    c = -a * b
    return c


class Sum:
    def of(self, a, b):
        """1 + 1 < 3"""
        if a < 3 and b:
            raise ValueError("a" + f"{a - b}")
        total = _part(a, b)
        total += 0.5
        return a if b else total


def _part(a, b):
    return a + b


def caller(a):
    return kernel(a, 2)
'''


@pytest.fixture(scope="module")
def package():
    return mutants.Package(mutants.ROOT)


@pytest.fixture
def toy(tmp_path):
    (tmp_path / "bayescore").mkdir()
    (tmp_path / "bayescore" / "toy.py").write_text(TOY)
    return tmp_path


@pytest.mark.parametrize("number", range(1, 51))
def test_each_mutant_is_found_once_and_can_be_made(package, number):
    mutant = json.loads(mutants.LIST.read_text(encoding="utf-8"))["mutants"][number - 1]
    assert mutant["why"]
    try:
        path, changed = package.mutated(mutant)
    except LookupError as error:
        pytest.fail(
            f"mutant {number} is not found exactly once: {error}\nIf its code has changed, run "
            "`python -m tests.mutants draw`, which puts another in its place; say in `why` what that breaks, or move "
            "it to `passed_over`"
        )
    assert ast.dump(ast.parse(changed)) != ast.dump(package.module(path))


def test_each_kind_changes_what_it_says():
    (function,) = ast.parse("def f():\n x = -a * g(b, 1.0)\n if a < 2 or b: pass\n return a if b else c").body
    changes = [
        [(kind, mutations.change(before, after)) for kind, before, after in mutations.sites(statement)]
        for statement in list(mutations.statements(function))
        if not isinstance(statement, ast.Pass)
    ]
    assert changes == [
        [
            ("sign", "-a * g(b, 1.0)  ->  -a / g(b, 1.0)"),
            ("drop", "-a * g(b, 1.0)  ->  -a"),
            ("drop", "-a * g(b, 1.0)  ->  g(b, 1.0)"),
            ("sign", "-a  ->  a"),
            ("swap", "g(b, 1.0)  ->  g(1.0, b)"),
            ("bound", "1.0  ->  1.1"),
        ],
        [
            ("drop", "a < 2 or b  ->  b"),
            ("drop", "a < 2 or b  ->  a < 2"),
            ("bound", "a < 2  ->  a <= 2"),
            ("bound", "2  ->  3"),
        ],
        [("swap", "a if b else c  ->  c if b else a")],
    ]


def test_only_what_changes_results_is_drawn_and_all_of_it_can_be_made(toy):
    package = mutants.Package(toy)
    drawn = list(mutants.candidates(package))
    assert {mutant["function"] for mutant in drawn if mutant["compiled"]} == {"kernel"}
    assert not any("ValueError" in mutant["statement"] or "1 + 1" in mutant["statement"] for mutant in drawn)
    sources = [package.mutated(mutant)[1] for mutant in drawn]
    assert len({ast.dump(ast.parse(source)) for source in (*sources, TOY)}) == len(drawn) + 1
    (added,) = [mutant for mutant in drawn if mutant["statement"] == "total += 0.5"]
    assert "\n        total -= 0.5\n" in package.mutated(added)[1]


def test_a_mutant_is_found_after_its_code_has_moved_and_not_after_it_has_changed(toy):
    (swapped,) = [m for m in mutants.candidates(mutants.Package(toy)) if m["change"].startswith("_part(a, b)")]
    file = toy / "bayescore" / "toy.py"
    file.rename(file.with_name("moved.py"))
    file = file.with_name("moved.py")
    file.write_text("import os\n" + TOY.replace("_part", "_part_of_toy"))
    path, changed = mutants.Package(toy).mutated(swapped)
    assert path == "bayescore/moved.py"
    assert "total = _part_of_toy(b, a)" in changed
    file.write_text(TOY.replace("_part(a, b)\n", "_part(a, a)\n"))
    with pytest.raises(LookupError, match=r"^Sum\.of: "):
        mutants.Package(toy).mutated(swapped)
    file.write_text(TOY + TOY)
    with pytest.raises(LookupError, match=r"^Sum\.of: "):
        mutants.Package(toy).mutated(swapped)


def test_kernels_are_followed_through_kernels_to_those_that_call_them(toy):
    other = "from bayescore import toy\n\n@jit\ndef twice(a):\n    return toy.kernel(a, a)\n"
    (toy / "bayescore" / "other.py").write_text(other)
    (toy / "bayescore" / "user.py").write_text("from bayescore.other import twice\n\ndef f(a):\n    return twice(a)\n")
    stale, callers = mutants.Package(toy).users("bayescore/toy.py", "kernel")
    assert stale == {"bayescore/toy.py", "bayescore/other.py"}
    assert callers == {"bayescore/toy.py", "bayescore/user.py"}


@pytest.mark.parametrize(("outcome", "refused"), [("survived", False), ("caught", True), ("timed out", True)])
def test_nothing_is_tried_where_the_tree_fails_without_a_mutant(outcome, refused):
    """Where Python had no matplotlib all mutants seemed to be caught."""
    trial = SimpleNamespace(
        entered={"tests/gone.py": set(), "tests/test_seeds.py": set(), "tests/test_cli.py": set()},
        seconds={"tests/gone.py": 0.0, "tests/test_seeds.py": 0.1, "tests/test_cli.py": 9.0},
        chosen=None,
        scratch=mutants.ROOT,
        tests=lambda _tree, files, _start: (outcome, f"a line of {files}", 0),
    )
    said = r"tests/test_seeds\.py is .* without a mutant"
    with pytest.raises(SystemExit, match=said) if refused else nullcontext():
        mutants.Trial.check(trial)
