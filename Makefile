# make example   install into .venv and run the main job on a shipped table
# make check     install into .venv with all tools; format, lint, types, tests
# make format    rewrite the sources in the house format
#
# Needs Python 3.11 or newer; choose one with `make PYTHON=python3.12 ...`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
REQUIREMENTS := pyproject.toml constraints.txt

.PHONY: help install install-dev example check format-check lint types test format clean
.NOTPARALLEL:

help:
	@sed -n 's/^# \{0,1\}//p;/^$$/q' Makefile

# The stamps say that what is in .venv fits the two files that ask for it.
$(VENV)/.installed: $(REQUIREMENTS)
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else "Python 3.11 or newer is needed, $(PYTHON) is %d.%d: make PYTHON=..." % v[:2])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-dev: $(REQUIREMENTS)
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else "Python 3.11 or newer is needed, $(PYTHON) is %d.%d: make PYTHON=..." % v[:2])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $(VENV)/.installed $@

install: $(VENV)/.installed

install-dev: $(VENV)/.installed-dev

example: install
	$(BIN)/sr4mdl fit examples/pendulum.csv --target period --time 10 --out runs/example

check: format-check lint types test

format-check: install-dev
	$(BIN)/ruff format --check .

lint: install-dev
	$(BIN)/ruff check .

types: install-dev
	$(BIN)/mypy src

# Two worker processes share the work, so each keeps to one thread.
test: install-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

format: install-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache build dist
