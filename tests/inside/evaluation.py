"""Private names of ipseval.evaluation that tests reach for."""

from __future__ import annotations

from ipseval.evaluation._explanation import build_explanation, describe_date
from ipseval.evaluation._integrations import ListMetrics, MlflowEvaluator
from ipseval.evaluation._latex import CellStyle, _state_no_difference
from ipseval.evaluation._page_sections import (
    build_difference_cell,
    build_differences,
    build_sensitivity,
)
from ipseval.evaluation._statement_criteria import CRITERIA, SOURCES, _state_power
from ipseval.evaluation.beyond import _measures
from ipseval.evaluation.beyond._measures import Recommended
from ipseval.evaluation.cold_start import describe_cold_users, measure_cold_start
from ipseval.evaluation.differences import build_difference_cells, compute_difference
from ipseval.evaluation.evaluation import match_label
from ipseval.evaluation.plotting import PLOT_KINDS
from ipseval.evaluation.report_content import ReportContent, flag_warnings
from ipseval.evaluation.segments._group_statistics import (
    compute_gap,
    family_level,
    gap_error,
    interval_half_width,
    satterthwaite,
    skewness_terms,
    t_test,
)
from ipseval.evaluation.segments._segments import SegmentCell
from ipseval.evaluation.segments._tables import _describe_differences, _describe_gaps
from ipseval.evaluation.segments.build import _assess_reliability
from ipseval.evaluation.segments.built_in_groups import resolve_groups
from ipseval.evaluation.segments.segment_sums import power_sums
from ipseval.evaluation.tracking import metric_names
from ipseval.evaluation.verdict import ModelRanking, Outcome, Verdict
from ipseval.evaluation.verdict_text import write_verdict
