"""The modules of `docs/_generate`, by which the site's build writes parts of the reference."""

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def generator(name: str) -> ModuleType:
    """Return a module that makes a page."""
    spec = importlib.util.spec_from_file_location(f"_generate_{name}", ROOT / "docs" / "_generate" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
