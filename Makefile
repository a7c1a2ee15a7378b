# make report        set up, run the main job on what ships, say where the report lies
# make test          set up, run the tests
# make test-slow     the tests that take minutes; make test-nightly: kills, simulations (half an hour)
# make test-browser  the inspection page in a real Chromium
# make screenshots   the README's pictures of the inspection page, anew
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

.PHONY: help setup report test test-slow test-nightly test-browser screenshots lint
help:
	@sed -n 's/^# //p' Makefile

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade -c constraints.txt pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[app,export,fast,ray]' --group dev
	@touch $(STAMP)

report: setup
	@$(BIN)/qt-bert report --resume --out report

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile -m 'not slow and not nightly and not browser'

test-slow: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile -m 'slow and not nightly'

test-nightly: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m nightly

test-browser: setup
	@tests/browser/install_chromium.sh
	$(BIN)/python -m pytest -q -m browser tests/browser

screenshots: setup
	@tests/browser/install_chromium.sh
	$(BIN)/python -m benchmarks.screenshots

lint: setup
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports && $(BIN)/mypy
