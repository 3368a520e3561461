# `make demo` and `make test` do all the set-up: they need Python 3.11 and make, nothing else.
PYTHON ?= $(shell command -v python3.11 || echo python3)
VENV ?= .venv
BIN = $(VENV)/bin
READY = $(VENV)/.ready

.PHONY: demo test lint unit notebooks bench clean

demo: $(READY)
	$(BIN)/bayescore demo -o demo
	@echo "open demo/report.html"

test: lint unit notebooks

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(READY)
	$(BIN)/pytest -n 2 --ignore tests/notebooks

notebooks: $(READY)
	$(BIN)/pytest tests/notebooks

bench: $(READY)
	$(BIN)/python -m benchmarks

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[all,dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) demo .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
