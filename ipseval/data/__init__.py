"""A log and its split: interactions, impressions, random exposure, reading, splitting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import Interactions
from ipseval.data.random_exposure import RandomExposure
from ipseval.utils import lazy
from ipseval.utils.border import guard

if TYPE_CHECKING:
    from ipseval.data import reading as reading
    from ipseval.data import splits as splits

__all__ = ["ImpressionLog", "Interactions", "RandomExposure"]
__getattr__ = lazy(__name__, {"reading": "", "splits": ""})

guard(__name__)
