"""Draw reference posteriors again: ``python -m tests.reference_moments [NAME ...]``."""

import importlib
import sys

from tests.reference_moments import DRAWN_BY, write

if __name__ == "__main__":
    for name in sys.argv[1:] or DRAWN_BY:
        write(name, *importlib.import_module(DRAWN_BY[name]).reference_draws(name))
