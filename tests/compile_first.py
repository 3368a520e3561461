"""Compile what most tests need before the workers of pytest start: ``python -m tests.compile_first``.

Workers that start with an empty cache compile the same kernels, and rewrite the assertions of the same tests, at the
same time. Here two processes do it once: one collects the tests, which writes their bytecode, and fits models of one
grouping factor, whose effects are integrated out; the other fits all other golden models.
"""

import contextlib
import io
import subprocess
import sys

import pytest

from tests.golden.fitted_models import LABELS, MODELS, fit_of


def compile_part(one_factor: bool) -> None:
    """Fit golden models of one grouping factor, and collect the tests; or fit the others."""
    if one_factor:
        with contextlib.redirect_stdout(io.StringIO()):
            pytest.main(["--collect-only", "--quiet"])
    for name, model in MODELS.items():
        if model.family in LABELS and not model.roles and ("| g)" in model.terms) == one_factor:
            fit_of(name)


def main() -> None:
    """Compile both parts at once, in a process each."""
    parts = [subprocess.Popen([sys.executable, "-m", "tests.compile_first", part]) for part in ("one", "others")]
    codes = [process.wait() for process in parts]
    if any(codes):
        sys.exit("compiling failed: see above; without it tests run as well, and take longer")


if __name__ == "__main__":
    compile_part(sys.argv[1] == "one") if sys.argv[1:] else main()
