"""Private names of ipseval.correction that tests reach for."""

from __future__ import annotations

from ipseval.correction import _shrunk_contrasts
from ipseval.correction._posterior import RandomSample, posterior
from ipseval.correction._prior import ALPHAS, SCALES
from ipseval.correction._shrunk_contrasts import TINY, steadied
