# Each target installs what it needs into .venv.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help install demo test check format docs benchmark clean

help:
	@echo "make demo       train, evaluate and write a report on a synthetic data set"
	@echo "make test       run the whole test suite"
	@echo "make check      run ruff and mypy"
	@echo "make format     format the code"
	@echo "make docs       build the documentation site into site/"
	@echo "make benchmark  measure every figure of benchmarks/README.md (takes hours)"

install: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --disable-pip-version-check --quiet 'pip>=25.1' # the first that knows dependency groups
	$(BIN)/pip install --quiet --constraint constraints.txt --editable . --group dev
	@touch $@

demo: $(READY)
	$(BIN)/python examples/demo.py

test: $(READY)
	@scripts/install-test-programs.sh || echo "without redis-server or chromium the tests that need them are skipped"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $$(($$(nproc) + 1)) --dist loadfile --no-loadscope-reorder

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open site/index.html"

benchmark: $(READY)
	@scripts/install-test-programs.sh redis-server wrk
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.quality
	$(BIN)/python -m benchmarks.planted
	$(BIN)/python -m benchmarks.planted --users 500,2000,10000
	$(BIN)/python -m benchmarks.proving
	$(BIN)/python -m benchmarks.proving --training-users 500
	$(BIN)/python -m benchmarks.long_users
	$(BIN)/python -m benchmarks.service.load
	$(BIN)/python -m benchmarks.service.events
	$(BIN)/python -m benchmarks.service.kills
	$(BIN)/python -m benchmarks.service.ingest
	$(BIN)/python -m benchmarks.service.fuzz
	$(BIN)/python -m benchmarks.service.chaos
	$(BIN)/python -m benchmarks.scale

clean:
	rm -rf .venv site .mypy_cache .pytest_cache .ruff_cache .hypothesis
