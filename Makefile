# One-line targets; `make test lint types` is what to run before a commit, `.ci/run` is what CI runs.
PYTHON ?= python

.PHONY: test slow lint format types docs bench demo ci

test: ; $(PYTHON) -m pytest
slow: ; $(PYTHON) -m pytest -m slow
lint: ; ruff check . && ruff format --check .
format: ; ruff check --fix . && ruff format .
types: ; mypy
docs: ; mkdocs build --strict
bench: ; for name in inference metrics propensity ranking sampled splits; do $(PYTHON) benchmarks/$$name.py || exit 1; done
demo: ; ipseval demo
ci: ; .ci/run
