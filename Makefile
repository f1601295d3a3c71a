# One-line targets; `make test lint types` is what to run before a commit, `.ci/run` is what CI runs.
PYTHON ?= python

.PHONY: test slow lint format types docs bench demo ci

test: ; $(PYTHON) -m pytest
slow: ; $(PYTHON) -m pytest -m slow
lint: ; ruff check . && ruff format --check .
format: ; ruff check --fix . && ruff format .
types: ; mypy
docs: ; mkdocs build --strict
bench: ; $(PYTHON) -m benchmarks
demo: ; ipseval demo
ci: ; .ci/run
