"""A log and its split: interactions, impressions, random exposure, reading, splitting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipseval._base import lazy
from ipseval._base.border import guard
from ipseval.data._impression_log import ImpressionLog
from ipseval.data._interactions import Interactions
from ipseval.data.random_exposure import RandomExposure

if TYPE_CHECKING:
    from ipseval.data import reading as reading
    from ipseval.data import splits as splits

__all__ = ["ImpressionLog", "Interactions", "RandomExposure"]
__getattr__ = lazy(__name__, {"reading": "", "splits": ""})

guard(__name__)
