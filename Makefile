# `make demo` and `make test` set everything up by themselves; `make help` lists the rest.

PYTHON ?= python3
VENV ?= .venv
TEXT ?= The committee hasn't decided yet. Which of the two proposals did you vote for?
SENTENCE ?= A painter arrived today who cleaned the clock .

BIN = $(VENV)/bin
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --durations=15
export PIP_DISABLE_PIP_VERSION_CHECK = 1

export SENTENCE TEXT
.DELETE_ON_ERROR:
.PHONY: help install demo trained-demo test test-all lint format docs benchmark clean

help:
	@echo "make demo       parse English text (TEXT=...); train on the bundled treebank, parse its test part, compare decoders"
	@echo "make test       ruff, spelling, types, tests"
	@echo "make test-all   the same with the slow tests, and the coverage of all of them"
	@echo "make lint       ruff, spelling, types"
	@echo "make install    only the environment, in $(VENV)"
	@echo "make format     apply ruff's automatic fixes"
	@echo "make docs       build the documentation site in build/docs; a warning is an error"
	@echo "make benchmark  speed of the first-order decoders next to other libraries"
	@echo "make clean      remove the environment, caches and the demo's run"

install: $(BIN)/.installed

$(BIN)/.installed: pyproject.toml setup.py constraints.txt models/arbora-english/pyproject.toml
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[test]" -e models/arbora-english
	touch $@

demo: $(BIN)/.installed
	printf '%s\n' "$$TEXT" | $(BIN)/python -m arbora.cli predict english --input raw --draw
	printf '%s\n' "$$TEXT" | $(BIN)/python -m arbora.cli predict english --input raw --quiet
	$(MAKE) --no-print-directory trained-demo

trained-demo: runs/demo/best.ckpt
	$(BIN)/python -m arbora.cli predict runs/demo/best.ckpt examples/treebank/test.conllu -o runs/demo/test.conllu
	$(BIN)/python -m arbora.cli evaluate examples/treebank/test.conllu runs/demo/test.conllu
	$(BIN)/python -m arbora.cli predict runs/demo/best.ckpt --sentence "$$SENTENCE"
	rm -rf runs/demo/report
	$(BIN)/python -m arbora.cli compare runs/demo/best.ckpt examples/treebank/test.conllu -o runs/demo/report \
		--decoders mst,eisner

runs/demo/best.ckpt: $(BIN)/.installed configs/demo.yaml $(wildcard examples/treebank/*.conllu)
	rm -rf runs/demo
	$(BIN)/python -m arbora.cli train --config demo

lint: install
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/codespell
	$(BIN)/python -m mypy

test: lint
	$(PYTEST)

test-all: lint
	$(PYTEST) -m "slow or not slow" --cov

format: install
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

docs: install
	$(BIN)/python -m sphinx -q -W --keep-going -a -b html -d build/doctrees docs build/docs
	@echo "the site is in build/docs/index.html"

benchmark: install
	$(BIN)/python benchmarks/first_order.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage build dist links runs/demo
	find package -type l -delete
