"""The version, where every module can read it."""

__version__ = "1.0.0"
