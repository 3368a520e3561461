"""Compile what most tests need before the workers of pytest start: ``python -m tests.compile_first``.

Workers that start with an empty cache compile the same kernels, and rewrite the assertions of the same tests, at the
same time. Here two processes do it once: one for models without groups, one for models with groups, which first
collects the tests and so writes their bytecode.
"""

import contextlib
import io
import subprocess
import sys

import pytest

from tests.golden.fitted_models import FLAT, LABELS, MODELS, fit_of

PARTS = ("flat", "groups")


def compile_part(part: str) -> None:
    """Fit the golden models without groups, or collect the tests and fit the golden models with groups."""
    if part == "groups":
        with contextlib.redirect_stdout(io.StringIO()):
            pytest.main(["--collect-only", "--quiet"])
    for name, model in MODELS.items():
        if model.family in LABELS and (model.terms in (FLAT, "score + device")) == (part == "flat"):
            fit_of(name)


def main() -> None:
    """Compile both parts at once, in a process each."""
    parts = [subprocess.Popen([sys.executable, "-m", "tests.compile_first", part]) for part in PARTS]
    codes = [process.wait() for process in parts]
    if any(codes):
        sys.exit("compiling failed: see above; without it tests run as well, and take longer")


if __name__ == "__main__":
    compile_part(sys.argv[1]) if sys.argv[1:] else main()
