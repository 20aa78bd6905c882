# The two commands of the README: `make quickstart` and `make test`. Both create .venv when it is missing.
export OMP_NUM_THREADS := 1
export TOKENIZERS_PARALLELISM := false
BIN := .venv/bin

.PHONY: quickstart test lint bench install clean

quickstart: .venv/installed
	$(BIN)/python datasets/quickstart/prepare.py
	$(BIN)/mmrl preprocess configs/quickstart.yaml
	$(BIN)/mmrl train configs/quickstart.yaml --overwrite

test: .venv/installed
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

lint: .venv/installed
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/pyright --pythonpath $(BIN)/python

bench: .venv/installed
	./tools/install_bench.sh
	$(BIN)/python tests/bench/run_all.py

install: .venv/installed

.venv/installed: pyproject.toml requirements/lock.txt requirements/overrides.txt tools/install.sh
	./tools/install.sh

clean:
	rm -rf .venv .venv-bench runs .mmrl_cache quickstart_data
