# Two commands: `make up` runs the stack, `make test` passes the tests. `make help` lists all.

PYTHON      ?= $(shell for p in python3.11 python3.12 python3; do command -v $$p && break; done)
VENV        ?= .venv
# PyTorch's CPU wheel index, where pip does not find the CPU build of torch by itself.
TORCH_INDEX ?=
UV_VERSION  := 0.13.9
BIN         := $(VENV)/bin

ifndef UV_FIND_LINKS  # uv does not read pip's configuration
UV_FIND_LINKS := $(shell $(PYTHON) -m pip config get global.find-links 2>/dev/null)
endif
export UV_FIND_LINKS
export VIRTUAL_ENV := $(abspath $(VENV))
# That index also holds old releases of other packages, so the best match of both is taken.
INDEX   := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX) --index-strategy unsafe-best-match)
INSTALL := $(BIN)/uv pip install --quiet --no-deps $(INDEX)
COMPILE := $(BIN)/uv pip compile $(INDEX) --quiet --no-header --no-annotate --python-version 3.11 \
	--python-platform x86_64-manylinux_2_28 --extra local --extra predictor-cpu pyproject.toml requirements/cpu.in

.PHONY: help up down test test-unit check bench lock clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

up: $(VENV)/.installed ## set everything up, start the stack, ask it one question, keep it running
	@$(BIN)/baseload up $(ARGS)

down: ## stop a stack that runs in the background
	@$(BIN)/baseload down

test: $(VENV)/.installed-dev ## set everything up and run every test, real vLLM included
	@$(BIN)/python -m pytest -m "not e2e" --cov --cov-report=term:skip-covered
	@$(BIN)/python -m pytest -m "e2e"

test-unit: $(VENV)/.installed-dev ## the tests that need no model: a minute or two
	@$(BIN)/python -m pytest -m "not e2e" --cov --cov-report=term:skip-covered

check: $(VENV)/.installed-dev ## format, lint, types, import rules, YAML, Dockerfiles
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/pyright
	@$(BIN)/lint-imports
	@$(BIN)/yamllint --strict manifests
	@$(BIN)/hadolint predictors/Dockerfile router/Dockerfile

bench: $(VENV)/.installed-dev ## the quick form of every benchmark
	@for script in scripts/bench/[!_]*.py; do echo "== $$script"; $(BIN)/python $$script --quick || exit 1; done

lock: $(BIN)/uv ## resolve requirements/*.lock anew
	$(COMPILE) --output-file requirements/cpu.lock
	$(COMPILE) --group dev --constraint requirements/cpu.lock --output-file requirements/dev.lock

clean: ## remove the environment and the state folder
	-@$(BIN)/baseload down 2>/dev/null
	rm -rf $(VENV) .baseload

$(BIN)/uv:
	@test -n "$(PYTHON)" || { echo "error: no python3 on PATH; install Python 3.11 or 3.12"; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if (3, 11) <= v < (3, 13) else f"error: Python 3.11 or 3.12 is needed, not {v.major}.{v.minor}; set PYTHON=")'
	@echo "creating $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

$(VENV)/.installed: $(BIN)/uv requirements/cpu.lock pyproject.toml
	@echo "installing requirements/cpu.lock (3.4 GB in $(VENV))"
	@start=$$(date +%s); $(INSTALL) -r requirements/cpu.lock && $(INSTALL) --editable . && touch $@ && \
		echo "installed in $$(($$(date +%s) - start)) s"

$(VENV)/.installed-dev: $(VENV)/.installed requirements/dev.lock
	@echo "installing requirements/dev.lock"
	@$(INSTALL) -r requirements/dev.lock && touch $@
