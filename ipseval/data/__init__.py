"""A log and its split: interactions, impressions, what is known of the truth, reading, splitting."""

from __future__ import annotations

from ipseval._base import lazy
from ipseval._base.border import guard
from ipseval.data._evidence import Evidence, Exposure
from ipseval.data._exposure_log import ExposureLog
from ipseval.data._interactions import Interactions

__all__ = ["Evidence", "Exposure", "ExposureLog", "Interactions"]
__getattr__ = lazy(__name__, {"reading": "", "splits": ""})

guard(__name__)
