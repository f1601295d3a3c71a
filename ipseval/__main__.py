"""`python -m ipseval`: the command line."""

from __future__ import annotations

import sys

from ipseval.cli import main

sys.exit(main())
