"""Private names of ipseval.correction that tests reach for."""

from __future__ import annotations

from ipseval.correction import _correct, _odds, _path, _plan, prediction_powered
from ipseval.correction._alpha import AlphaPosterior
from ipseval.correction._correct import check_evaluated_pairs, rank_with_exposure
from ipseval.correction._odds import _PairFeatures as PairFeatures
from ipseval.correction._odds import fit_odds, logistic
from ipseval.correction._order import (
    MetricOrder,
    choose_recommender,
    compute_challenger_threshold,
    find_challenger,
    find_leader,
    find_strongest_rival,
    find_tied_first,
    least_probability_better,
    least_sample_lead,
    rank_by_aoa,
)
from ipseval.correction._path import _intraclass_correlation, _typical_hit, regress_on_aoa
from ipseval.correction._posterior import Posterior, RandomSample, compute_posterior
from ipseval.correction._posterior import _compute_hit_weight as compute_hit_weight
from ipseval.correction._prior import ALPHAS, SCALES
from ipseval.correction._reference_values import ReferenceValue, ReferenceValues, parse_reference_values
from ipseval.correction._report import CorrectionReport, _metric_table, correction_tables, verdict_sentences
from ipseval.correction.prediction_powered import (
    PpiEstimate,
    TrainingOverlap,
    compute_difference_totals,
    compute_ratio,
    compute_totals,
    list_pairs_to_predict,
    measure_training_overlap,
)
