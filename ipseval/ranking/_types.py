"""Types of objects that come from users and from other libraries."""

from __future__ import annotations

from typing import Any, TypeAlias

AnyModel: TypeAlias = Any  # a scorer, lists, ranks, or a trained model of any library
AnyFrame: TypeAlias = Any  # a data frame of any library that narwhals supports
Untyped: TypeAlias = Any  # an object of a library without type stubs
