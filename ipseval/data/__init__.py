"""Read, hold and split logs: interactions, impressions and random exposure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import Interactions
from ipseval.data.random_exposure import RandomExposure

if TYPE_CHECKING:
    from ipseval.data import reading as reading
    from ipseval.data import splits as splits

__all__ = ["ImpressionLog", "Interactions", "RandomExposure"]
__getattr__, _, _ = lazy_loader.attach(__name__, submodules=["reading", "splits"])
