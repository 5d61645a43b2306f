# Everything runs in .venv, which the first target that needs it builds from python3 (3.11 or newer).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JOBS ?= 2
PYMC := .venv-pymc
PEERS := .venv-peers
HAMON := .venv-hamon
MCISING := .venv-mcising

# Tests start a hundred interpreters, which would each compile all sources.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-pymc mutants bench format clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

demo: $(READY) ## Sample the paper's model and an Ising lattice, and draw a picture (about a minute)
	$(BIN)/python examples/demo.py

test: $(READY) ## Lint, check types and run the tests (five to ten minutes)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest -n $(JOBS)

test-long: $(READY) ## Run the long statistical tests
	$(BIN)/python -m pytest -n $(JOBS) -m slow

test-pymc: $(PYMC)/.ready ## Test the PyMC step method, in an environment of its own (PyMC holds numba back)
	$(PYMC)/bin/python -m pytest -n $(JOBS) tests/test_pymc.py tests/test_pymc_density.py

mutants: $(READY) ## Plant known bugs one by one and check that a test turns red for each
	$(BIN)/python tests/mutants/run.py

bench: $(READY) $(PEERS)/.ready $(HAMON)/.ready $(MCISING)/.ready ## Print and save the table of speed ratios
	$(BIN)/python benchmarks/run.py

format: $(READY) ## Format the sources and fix what the linter can fix
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean: ## Remove the virtual environment and everything that is made again
	rm -rf $(VENV) $(PYMC) $(PEERS) $(HAMON) $(MCISING) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last, so that an interrupted installation is done again. `--group` needs pip 25.1.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "bouncy needs Python 3.11 or newer, but $(PYTHON) is: $$($(PYTHON) --version 2>&1)." >&2; \
		echo "Name another interpreter: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot create virtual environments: the modules venv and ensurepip are missing." >&2; \
		echo "Install them first; on Debian and Ubuntu: apt install python3-venv (or python3.X-venv for another $(PYTHON))." >&2; \
		exit 1; }
	$(call install,$(VENV),--editable ".[plots]",dev)

$(PYMC)/.ready: $(READY)
	$(call install,$(PYMC),--editable ".[pymc]",pymc)

$(PEERS)/.ready: $(READY)
	$(call install,$(PEERS),,peers)

$(HAMON)/.ready: $(READY)
	$(call install,$(HAMON),,hamon)

$(MCISING)/.ready: $(READY)
	$(call install,$(MCISING),,mcising)

# Make an environment (1) with the package and an extra (2), or without it, and a group (3) of tools.
define install
	$(PYTHON) -m venv --clear $(1)
	$(1)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(1)/bin/python -m pip install --quiet $(2) --group $(3)
	@touch $@
endef
