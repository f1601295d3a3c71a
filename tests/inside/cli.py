"""Private names of ipseval.cli that tests reach for."""

from __future__ import annotations

from ipseval.cli._about import DEPENDENCIES, EXTRAS, _describe_cache, self_test
from ipseval.cli._correct import Plan, describe_sufficient_size
from ipseval.cli._demo_world import build_demo_world, merge_demo_log, run_demo
from ipseval.cli._files import load_table, parse_file_entry
from ipseval.cli._fit import FitReport, _describe_spread
from ipseval.cli._inputs import (
    build_compute_options,
    build_propensity,
    load_correction_data,
    load_groups,
    load_models,
    load_random_exposure,
    load_split,
    parse_reference_values,
)
from ipseval.cli._main import COMMANDS, Parser, build_parser
from ipseval.cli._options import PROPENSITY_MODELS
from ipseval.cli._output import deliver_result, print_message, show_warning, write_table
