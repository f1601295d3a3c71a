"""Study evaluation itself: protocols, agreement of rankings, and offline metrics against online ones."""

from __future__ import annotations

import lazy_loader

__all__ = ["agreement", "online", "protocols"]
__getattr__, _, _ = lazy_loader.attach(__name__, submodules=__all__)
