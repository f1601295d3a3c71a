"""Classes whose constructors have names: what they answer to the constructor names of other libraries."""

from __future__ import annotations

from typing import Any

from ipseval.utils.peer_names import suggest_replacement


class NamedConstructors(type):
    """Metaclass of classes that are made by constructors such as `from_frame`.

    A wrong name of a constructor, such as `from_pandas`, leads to an error that names those of the class.
    """

    def __getattr__(cls, name: str) -> Any:
        """Raise `AttributeError` with the constructors of the class, or with the hint for the name."""
        text = f"type object {cls.__name__!r} has no attribute {name!r}"
        if name.startswith(("from_", "read_")):
            text = f"{text}. Use {list_constructors(cls)}."
        elif not name.startswith("_") and suggest_replacement(name):
            text = f"{text}. {suggest_replacement(name)}"
        raise AttributeError(text, name=name, obj=cls)


def word_frame_error(cls: type, value: object) -> str:
    """Return the error of a class that was called on a data frame in place of its fields."""
    return (
        f"{cls.__name__} must be made from arrays of codes; got {type(value).__name__}. "
        f"Use {list_constructors(cls)}."
    )


def list_constructors(cls: type) -> str:
    """Return the constructors of a class as calls."""
    calls = ["ipseval.read(frame)"] if "from_frame" in dir(cls) else []
    for name in dir(cls):
        if name == "from_frames":
            calls.append(f"{cls.__name__}.{name}(train, test)")
        elif name.startswith("from_"):
            calls.append(f"{cls.__name__}.{name}(frame)")
    return " or ".join(calls)
