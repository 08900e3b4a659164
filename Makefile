# `make demo` and `make test` set everything up by themselves; `make help` lists the rest.

PYTHON ?= python3
VENV ?= .venv
SENTENCE ?= A painter arrived today who cleaned the clock .

BIN = $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

export SENTENCE
.DELETE_ON_ERROR:
.PHONY: help install demo test lint format benchmark clean

help:
	@echo "make demo       train on the bundled treebank, parse its test part and a sentence (SENTENCE=...), draw it"
	@echo "make test       everything that must hold: ruff, types, tests"
	@echo "make install    the environment alone, in $(VENV)"
	@echo "make format     let ruff mend what it can"
	@echo "make benchmark  speed of the first-order decoders beside other libraries"
	@echo "make clean      remove the environment, caches and the demo's run"

install: $(BIN)/.installed

$(BIN)/.installed: pyproject.toml constraints.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[test,text,transformer,benchmark]"
	touch $@

demo: runs/demo/best.ckpt
	$(BIN)/python -m arbora.cli predict runs/demo/best.ckpt examples/treebank/test.conllu -o runs/demo/test.conllu
	$(BIN)/python -m arbora.cli evaluate examples/treebank/test.conllu runs/demo/test.conllu
	$(BIN)/python -m arbora.cli predict runs/demo/best.ckpt --sentence "$$SENTENCE"

runs/demo/best.ckpt: $(BIN)/.installed configs/demo.yaml $(wildcard examples/treebank/*.conllu)
	rm -rf runs/demo
	$(BIN)/python -m arbora.cli train --config configs/demo.yaml

lint: install
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

test: install lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

format: install
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

benchmark: install
	$(BIN)/python benchmarks/first_order.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis runs/demo
