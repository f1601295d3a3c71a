"""Private names of ipseval.cli that tests reach for."""

from __future__ import annotations

from ipseval.cli._about import EXTRAS, NEEDED
from ipseval.cli._demo_world import demo_log, demo_world, run_demo
from ipseval.cli._main import COMMANDS, build_parser
