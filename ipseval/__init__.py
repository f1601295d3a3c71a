"""Evaluate recommenders offline from biased implicit feedback.

Logged clicks and purchases are missing not at random, so the average over observed positives (AOA) favours
recommenders of popular items. ipseval weights each positive by its inverse propensity (IPS, SNIPS) and
reports the uncertainty of every estimate and the condition under which it is unbiased.

Where things are computed: `estimators/aoa.py`, `ips.py` and `snips.py` hold the formulas of the estimators,
`metrics` those of the metrics, `propensity` the models of propensities, `ranking` the ranks of held-out
positives, `inference` errors and tests, and `evaluation` joins them and words the verdict.

Names are loaded from their modules when they are first used, so that importing the package is fast. The stub
`__init__.pyi` lists the same names for type checkers.
"""

from __future__ import annotations

from typing import Any

import lazy_loader

from ipseval._version import __version__ as __version__

# Modules that are public names of their own.
PUBLIC_MODULES = ["distributed", "errors", "policies", "studies", "testing"]
# Modules that are reached as attributes, but are not listed.
OTHER_MODULES = [
    "correction",
    "data",
    "estimators",
    "evaluation",
    "inference",
    "metrics",
    "propensity",
    "ranking",
    "reporting",
    "validation",
]
NAMES_BY_MODULE = {
    "correction": ["correct", "plan_exposure"],
    "data.impression_log": ["ImpressionLog"],
    "data.interactions": ["Interactions"],
    "data.random_exposure": ["RandomExposure"],
    "data.reading": ["Lists", "read", "read_lists"],
    "data.splits": ["Split", "split_global_time", "split_leave_one_out", "split_random", "split_temporal"],
    "errors": ["InputError", "IpsevalError"],
    "evaluation": ["Evaluation", "evaluate", "evaluate_ranks"],
    "evaluation._registration": ["register"],
    "evaluation.beyond": ["beyond_accuracy"],
    "evaluation.slates": ["evaluate_slates"],
    "metrics": ["metric"],
    "metrics.sampled": ["correct_sampled", "expected_sampled"],
    "propensity": [
        "DensityRatioPropensity",
        "ImpressionPropensity",
        "KnownPropensity",
        "PowerLawPropensity",
        "fit_gamma",
        "fit_gamma_from_exposure",
    ],
    "ranking": ["RankedPositives", "SampledCandidates", "adapters", "baselines", "rank_positives"],
    "reporting": ["plots"],
    "studies.agreement": ["order_agreement"],
    "utils.compute": ["ComputeOptions"],
    "validation": ["datasets", "simulation", "validate"],
}

_load, __dir__, _ = lazy_loader.attach(
    __name__, submodules=PUBLIC_MODULES + OTHER_MODULES, submod_attrs=NAMES_BY_MODULE
)

_public_names = ["__version__", *PUBLIC_MODULES]
for _names in NAMES_BY_MODULE.values():
    _public_names += _names
__all__ = sorted(_public_names)


def __getattr__(name: str) -> Any:
    """Return a public name, or explain what to use in place of a name of another library."""
    try:
        return _load(name)
    except AttributeError:
        from ipseval.utils.public import missing_attribute

        raise missing_attribute("module 'ipseval'", name) from None
