"""ipseval."""

__version__ = "0.1.0"
