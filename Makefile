# `make demo` and `make test` install what they need into .venv by themselves.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help install demo test check format benchmark clean

help:
	@echo "make demo       train, evaluate by cold-start stage and write a report on the embedded planted world"
	@echo "make test       the whole test suite"
	@echo "make check      ruff and mypy"
	@echo "make format     let ruff format the code"
	@echo "make benchmark  print every figure of benchmarks/README.md (needs MovieLens-1M and Frappe)"

install: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --disable-pip-version-check --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)
	$(BIN)/python examples/demo.py

test: $(READY)
	@scripts/install-test-programs.sh || echo "without redis-server or chromium the tests that need them are skipped"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

benchmark: $(READY)
	@scripts/install-test-programs.sh redis-server wrk
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.quality
	$(BIN)/python -m benchmarks.planted
	$(BIN)/python -m benchmarks.long_users
	$(BIN)/python -m benchmarks.service.load
	$(BIN)/python -m benchmarks.service.kills
	$(BIN)/python -m benchmarks.service.fuzz
	$(BIN)/python -m benchmarks.scale

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
