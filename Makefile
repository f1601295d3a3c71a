# One-line targets; `make test lint types` is what to run before a commit, `.ci/run` is what CI runs.
PYTHON ?= python

.PHONY: paper matrix test check unit contract golden engines properties slow lint format types docs bench demo processors coverage mutation fuzz ci

test: ; $(PYTHON) -m pytest
check: ; $(PYTHON) -m pytest tests/test_architecture.py $(if $(WING),$(wildcard tests/$(WING) ipseval/$(WING:base=_base) ipseval/$(WING).py),$(error WING=ranking, or another folder of tests))
unit contract golden engines: ; $(PYTHON) -m pytest -m "$@ and not slow"
properties: ; $(PYTHON) -m pytest --hypothesis-profile thorough -m "hypothesis and not slow and not engines"
slow: ; $(PYTHON) -m pytest -m slow
lint: ; ruff check . && ruff format --check .
format: ; ruff check --fix . && ruff format .
types: ; mypy && $(PYTHON) -m tests.typed
docs: ; codespell docs *.md data/README.md && $(PYTHON) -m documentation
bench: ; $(PYTHON) benchmarks/run.py $(if $(AGAINST),--against $(AGAINST))
demo: ; ipseval demo
processors: ; $(PYTHON) tests/processors.py --suite
coverage: ; $(PYTHON) -m coverage run --branch -m pytest && $(PYTHON) -m tests.floors
mutation: ; $(PYTHON) -m tests.mutation.run --n $(or $(N),100)
fuzz: ; $(PYTHON) -m tests.fuzz.run --minutes $(or $(MINUTES),60)
paper: ; $(PYTHON) -m paper
matrix: ; nox -s tests && nox -s table
ci: ; .ci/run
