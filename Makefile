# `make demo` and `make test` do all the set-up: they need Python 3.11 or later and make, nothing else.
# `make PYTHON=python3.13` chooses an interpreter; by default it is the first of these that runs and is new enough.
# The aim on two cores, after the installation: `make test` 6 minutes, and `make check`, which is everything, 20.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
ifeq ($(VERSION),)
$(error PYTHON='$(PYTHON)' does not run, or no Python 3.11 or later was found: install one, or name it as make PYTHON=...)
endif
CONSTRAINTS = $(if $(filter 3.11,$(VERSION)),constraints.txt,constraints-313.txt)
VENV ?= .venv
BIN = $(VENV)/bin
READY = $(VENV)/.ready-$(VERSION)

# a file of tests runs in one process, so that it makes its fixtures once; the longest file first (tests/durations.py)
WORKERS = -n 2 --dist loadfile --no-loadscope-reorder
# bytecode is kept, even where the environment says not to: dozens of processes that tests start read it
ENVIRONMENT = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1}
PYTEST = $(ENVIRONMENT) $(BIN)/pytest $(WORKERS)
SPHINX = $(ENVIRONMENT) $(BIN)/sphinx-build -W --keep-going -b html docs
UNREACHABLE = http://127.0.0.1:9

.PHONY: demo test check lint compiled unit slow portable durations notebooks docs course pages bench evidence lowest clean

demo: $(READY)
	$(BIN)/bayescore demo -o demo
	@echo "open demo/report.html"

# one process checks types while others compile
test: $(READY)
	$(MAKE) --jobs=2 lint compiled
	$(PYTEST) -m "not slow"

# the pages are built by one process: slow tests, two at a time, keep the other core busy
check: test
	$(MAKE) --jobs=2 slow pages

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# kernels and rewritten tests, compiled once for all workers
compiled: $(READY)
	$(ENVIRONMENT) $(BIN)/python -m tests.compile_first

unit: compiled
	$(PYTEST) -m "not slow"

# all but what `pages` does, the notebooks without data and the build of the site; `test`, which comes before, has
# compiled the kernels
slow: $(READY)
	$(PYTEST) -m "slow and not pages"

# every test, and how long each took into tests/durations.json
durations: compiled
	$(PYTEST) --record-durations

notebooks: $(READY)
	$(BIN)/pytest -n 2 tests/notebooks

# the unit tests as other processors run them: kernels of BLAS, threads, instructions
portable: $(READY)
	$(BIN)/python -m tests.portable $(WORKERS) -m "not slow"

# the site in docs/_build/html: pages and notebooks are run, without a network; what has not changed is not run again
docs: $(READY)
	$(SPHINX) docs/_build/html
	@echo "open docs/_build/html/index.html"

# what a class gets: hand-outs and solutions are a part of the site, slides lie beside it
course: docs
	$(BIN)/python docs/_generate/course.py docs/_build/jupyter_execute/tutorials docs/_build/slides

# the same with notebooks in small sizes, without data, and without a network where there is one: to see that all runs;
# then a browser opens every page, where Chromium is installed
pages: $(READY)
	BAYESCORE_QUICK=1 SCIKIT_LEARN_DATA=$(CURDIR)/docs/_build/empty \
		http_proxy=$(UNREACHABLE) https_proxy=$(UNREACHABLE) no_proxy= NO_PROXY= $(SPHINX) docs/_build/quick
	$(BIN)/python -m tests.docs.site docs/_build/quick

# the lowest versions that pyproject.toml declares, on the oldest Python: they install and pass the quick tests
lowest: $(READY)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(VENV)-lowest
	$(BIN)/uv pip install --quiet --python $(VENV)-lowest --resolution lowest-direct --editable ".[all,test]"
	$(VENV)-lowest/bin/pytest $(WORKERS) -m "not slow" -W ignore::DeprecationWarning -W ignore::FutureWarning \
		--ignore tests/notebooks --ignore tests/golden

bench: $(READY)
	$(BIN)/python -m benchmarks

# the tables that pages quote, and the papers', again: three hours; QUICK=1: the papers in miniature, in benchmarks/.quick
evidence: $(READY)
	$(BIN)/python -m benchmarks evidence $(if $(QUICK),--quick)

$(READY): pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable ".[all,dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) $(VENV)-lowest demo docs/_build docs/_static/reports docs/reference/generated .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
