"""Private names of ipseval.cli that tests reach for."""

from __future__ import annotations

from ipseval.cli._about import EXTRAS, NEEDED, _cache, self_test
from ipseval.cli._correct import Plan, describe_sufficient_size
from ipseval.cli._demo_world import demo_log, demo_world, run_demo
from ipseval.cli._files import spec_of
from ipseval.cli._fit import Fitted, _spread
from ipseval.cli._inputs import (
    compute_options,
    correction_options,
    groups_of,
    models_of,
    propensity_of,
    random_exposure_of,
    reference_values_of,
    split_of,
)
from ipseval.cli._main import COMMANDS, Parser, build_parser
from ipseval.cli._output import complain, deliver, show_warning, write_table
