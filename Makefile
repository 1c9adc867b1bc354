# `make train` and `make test` do all the set-up on a fresh machine with Python 3.11 or newer.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS ?=

# Under ten minutes together on two idle cores.
BENCHMARKS := wake weights pack priorities projection trace settings update overlap envs
QUICK := scaling

.PHONY: train test test-slow test-gpu test-root check format bench bench-collectors bench-peers clean

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
	@failed=0; for name in $(BENCHMARKS); do \
		OMP_NUM_THREADS=1 $(BIN)/python benchmarks/bench_$$name.py || failed=1; \
	done; for name in $(QUICK); do \
		OMP_NUM_THREADS=1 $(BIN)/python benchmarks/bench_$$name.py --quick || failed=1; \
	done; exit $$failed

# Whole runs with one to four collectors, and then 1 to 128 in simulated time, calibrated by those runs.
bench-collectors: $(READY)
	@failed=0; for name in bench simulate; do \
		OMP_NUM_THREADS=1 $(BIN)/python benchmarks/$${name}_collectors.py || failed=1; \
	done; exit $$failed

# Hours: Stable-Baselines3 and SBX beside unilab, each on the whole machine in turn. A run that is there is not made again.
bench-peers: $(READY)
	$(BIN)/pip install --disable-pip-version-check -q -c constraints.txt -e '.[bench]'
	@failed=0; $(BIN)/python benchmarks/bench_end_to_end.py || failed=1; \
	for env in Pendulum-v1 HalfCheetah-v5; do \
		$(BIN)/python benchmarks/bench_time_to_return.py --env $$env $(ARGS) || failed=1; \
	done; exit $$failed

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

$(READY): setup.cfg pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "unilab needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --disable-pip-version-check -q -c constraints.txt -e '.[dev]'
	touch $@
