# `make train` and `make test` do all the set-up on a fresh machine with Python 3.11 or newer.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS ?=

.PHONY: train test test-slow test-gpu test-root check format bench clean

train: $(READY)
	$(BIN)/python scripts/train.py --algo sac $(ARGS)

test: $(READY)
	$(BIN)/python -m pytest $(ARGS)

# Minutes long: learning curves over seeds, long determinism runs.
test-slow: $(READY)
	$(BIN)/python -m pytest -m slow --timeout 7200 $(ARGS)

# Needs a CUDA device.
test-gpu: $(READY)
	$(BIN)/python -m pytest -m gpu $(ARGS)

# Needs root on Linux: each test mounts small or read-only file systems that only its own processes see.
test-root: $(READY)
	$(BIN)/python -m pytest -m root $(ARGS)

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	for file in benchmarks/bench_*.py; do $(BIN)/python $$file || exit 1; done

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

$(READY): setup.cfg pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "unilab needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check -q -c constraints.txt -e '.[dev]'
	touch $@
