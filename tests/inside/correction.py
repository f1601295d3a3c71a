"""Private names of ipseval.correction that tests reach for."""

from __future__ import annotations

from ipseval.correction import _difference
from ipseval.correction._difference import pairs_to_predict, ratio, totals
from ipseval.correction._path import on_line
from ipseval.correction._posterior import RandomSample, posterior
from ipseval.correction._prior import ALPHAS, SCALES
from ipseval.correction._result import UNEXPLAINED
