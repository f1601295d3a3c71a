"""Validation, ids, columns, counts, files, registries and the storage of results; no statistics."""
