# `make demo` and `make test` set up all they need; see `make help`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input

# Stamps live in the environment, so deleting it starts over.
VENV_READY := $(VENV)/.venv-ready
JAVA_READY := $(VENV)/.java-ready
READY := $(VENV)/.packages-ready
DOCS_READY := $(VENV)/.docs-ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint check bench bench-spark clean

help:
	@echo "make setup   install everything into $(VENV) (the other targets do it when needed)"
	@echo "make demo    show queries at work on Spark"
	@echo "make test    run the tests, except the slow ones"
	@echo "make lint    linter, formatter, types, import rules"
	@echo "make check   linter, formatter, types, import rules and all tests, with new examples"
	@echo "make bench   measure: tables here, numbers and plots in out/bench"
	@echo "make bench-spark   the same on Spark, beside its own windows (some minutes)"
	@echo "make docs    build the pages of README.md and docs/ as a site in out/site, links checked"
	@echo "make clean   remove caches and build output (to start over, delete $(VENV) too)"
	@echo
	@echo "PYTHON=python3.12 uses another Python than python3 (3.11 to 3.13)."

setup: $(READY)

demo: $(READY)
	@$(BIN)/penstock demo

test: $(READY)
	@$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slow" --hypothesis-profile=same \
	  -o faulthandler_timeout=300

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict penstock
	$(BIN)/lint-imports

check: lint
	$(BIN)/python -m pytest -n 2 --dist loadgroup

bench: $(READY)
	@$(BIN)/python -m benchmarks

bench-spark: $(READY)
	@$(BIN)/python -m benchmarks.spark

.PHONY: docs  # there is a folder of that name
docs: $(DOCS_READY)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "out/site/index.html"

clean:
	rm -rf build dist out *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache \
	  .ruff_cache artifacts derby.log metastore_db spark-warehouse
	find . -name $(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV_READY):
	@scripts/make_venv.sh "$(PYTHON)" $(VENV)
	@touch $@

# Before the packages: a missing Java should show before the long download.
$(JAVA_READY): scripts/ensure_java.sh | $(VENV_READY)
	@scripts/ensure_java.sh
	@touch $@

# The build backend comes from constraints.txt as well, hence no isolated build. Spark comes as
# a source archive without pyproject.toml, which pip 23.0 builds properly only when told to.
$(READY): pyproject.toml constraints.txt $(VENV_READY) | $(JAVA_READY)
	@echo "installing Python packages (Spark is large: this can take some minutes) …"
	@$(PIP) install -qq -c constraints.txt setuptools
	@$(PIP) install -qq -c constraints.txt --use-pep517 --no-build-isolation \
	  -e '.[dev,spark]'
	@touch $@
	@echo "ready"

# Pages need neither Spark nor what the tests need.
$(DOCS_READY): pyproject.toml constraints.txt $(VENV_READY)
	@$(PIP) install -qq -c constraints.txt setuptools
	@$(PIP) install -qq -c constraints.txt --use-pep517 --no-build-isolation -e '.[docs]'
	@touch $@
