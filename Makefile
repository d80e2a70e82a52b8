# The development commands. `make` without a target lists them.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
READY := .venv/.ready
PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(shell command -v $(name))))
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)

.PHONY: help demo up test test-system tools check mutants lint types format console notebooks bench faults soak pins clean java

help:  ## list these commands
	@sed -n 's/^\([-.a-z]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name what; do \
		printf '  make %-11s %s\n' "$$name" "$$what"; done

demo: $(READY)  ## run the whole system on this machine, with real flights
	@$(BIN)/trilayer demo

up: $(READY)  ## run the local stack until Ctrl-C
	@$(BIN)/trilayer up

test: lint  ## run lint, types, and the tests of the code, with Spark and a real broker
	@$(call WITH_TYPES,$(PYTEST) tests/unit tests/invariants tests/integration)

test-system: $(READY)  ## run the tests that start, kill and schedule whole systems
	$(PYTEST) tests/system

PYTEST = $(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

# Checks types beside the tests.
define WITH_TYPES
said=$$(mktemp); $(BIN)/mypy >$$said 2>&1 & types=$$!; \
$(1); tests=$$?; wait $$types; types=$$?; cat $$said; rm $$said; exit $$((tests || types))
endef

tools:  ## install the programs that some tests need (Debian: Chromium, PostgreSQL, psqlODBC, Prometheus, Node.js, Go, JDK)
	@bash tests/support/install_tools.sh

check: lint  ## run lint, types and the fast tests, in a minute: no broker and no Spark
	@$(call WITH_TYPES,$(BIN)/python -m pytest tests/unit tests/invariants -m "not slow" --numprocesses 2 --dist worksteal)

mutants: $(READY)  ## run mutation tests of the rules and list the mutants that survive (FILE="a.py b.py")
	@$(BIN)/python -m qa.mutation $(FILE)

lint: $(READY)  ## check rules and format (ruff), imports between packages, unused names, budgets
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/vulture
	$(BIN)/python -m qa.budgets

types: $(READY)  ## check types (mypy)
	$(BIN)/mypy

format: $(READY)  ## format the code and apply automatic fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

console:  ## bundle the web console into trilayer_server/console (needs Node.js)
	@command -v npm >/dev/null || { echo "npm must be on the PATH; got none; run: make tools" >&2; exit 1; }
	cd console && npm ci --ignore-scripts --no-audit --no-fund && node build.mjs

notebooks: $(READY)  ## run the notebooks on a new store and save their outputs
	@$(BIN)/python -m tests.support.notebooks

bench: $(READY)  ## run the benchmarks
	@$(BIN)/python -m benchmarks

faults: $(READY)  ## inject the faults of docs/reliability.md into a real stack (SEED=, MINUTES=, FAULTS="kill-broker ...")
	@$(BIN)/python -m qa.faults $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(FAULTS)

soak: $(READY)  ## run random schedules of the seam for HOURS or SECONDS, from SEED on; print failures, minimised
	@$(BIN)/python -m qa.soak --seconds $(or $(SECONDS),$(if $(HOURS),$$(( $(HOURS) * 3600 ))),3600) --seed $(or $(SEED),1000000)

pins:  ## compile requirements/*.txt from pyproject.toml with uv (PINS_FLAGS=--upgrade raises versions)
	@command -v uv >/dev/null || { echo "uv must be on the PATH; got none; run: python3 -m pip install uv" >&2; exit 1; }
	$(PIN) pyproject.toml -o requirements/base.txt
	$(PIN) pyproject.toml --all-extras -c requirements/base.txt -o requirements/dev.txt
	$(PIN) requirements/clients.in --no-strip-extras -o requirements/clients.txt
PIN = UV_CUSTOM_COMPILE_COMMAND="make pins" uv pip compile -q --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-emit-find-links $(PINS_FLAGS)

clean:  ## remove caches and build results; keep .venv and the data in .trilayer
	rm -rf mutants build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

.venv: $(READY)  ## create the environment, again whenever the pins change

$(READY): requirements/dev.txt pyproject.toml examples/pyproject.toml | java
	@$(if $(PYTHON),,echo "Python must be 3.11 or newer; got none. $(INSTALL_PYTHON)" >&2; exit 1;) \
	"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python must be 3.11 or newer; got $$("$(PYTHON)" --version 2>&1). $(INSTALL_PYTHON)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip' 2>/dev/null || { \
		echo "$(PYTHON) must have the venv module; got none. Run: sudo apt-get install python3-venv" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "Creating .venv with $$("$(PYTHON)" --version)"; "$(PYTHON)" -m venv .venv; }
	@echo "Installing the packages of requirements/dev.txt (about 1 GB with Airflow and Jupyter; this takes minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e ./examples
	@touch $@

java:
	@version=$$($(JAVA) -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1); \
	test "$${version:-0}" -ge 17 || { echo "Java must be 17 or newer; got $${version:-none}." \
		"Run: sudo apt-get install openjdk-17-jre-headless   (macOS: brew install openjdk@17)" >&2; exit 1; }

INSTALL_PYTHON = Run: sudo apt-get install python3.11 python3.11-venv   (macOS: brew install python@3.11)
