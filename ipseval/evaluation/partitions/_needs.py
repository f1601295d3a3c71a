"""What engines that hold a part of the users at a time need beside what is public."""

from __future__ import annotations

from ipseval.evaluation.segments._build import segments_of
from ipseval.evaluation.segments._built_in import of_items_alone, resolve
from ipseval.ranking._targets import Targets

__all__ = ["Targets", "of_items_alone", "resolve", "segments_of"]
