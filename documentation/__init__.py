"""The documentation site: what `python -m documentation` builds from docs/, notebooks/ and mkdocs.yml."""
