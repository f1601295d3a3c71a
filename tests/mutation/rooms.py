"""The rooms whose tests are tested, one a wing: what is mutated, by which tests, and the controls.

Not mutated are `errors`, faces of wings, the recommenders of `baselines`, and what other libraries run:
adapters, Dask, Spark, and the compiled kernels, which must give the integers of those of NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LEFT_OUT = (
    *("__init__.py", "baselines.py", "_dask.py", "_spark.py"),
    *("numba_compile.py", "numba_kernels.py", "numba_count.py"),
)


@dataclass(frozen=True)
class Room:
    """A wing, the control (a change that has to be found), and fast tests elsewhere that concern the wing."""

    wing: str
    control: tuple[str, str, str]  # file of the wing, text, and what it is replaced with
    elsewhere: tuple[str, ...] = ()
    plugin: tuple[str, ...] = ()  # a file beside the folder

    @property
    def folder(self) -> str:
        """Where the wing is."""
        return f"ipseval/{self.wing}"

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests of the wing, those that concern all wings, and those elsewhere."""
        return (
            f"tests/{self.wing.removeprefix('_')}/",
            *SHARED,
            *(f"tests/{module_name}.py" for module_name in self.elsewhere),
        )

    def paths(self, root: Path) -> list[Path]:
        """Return the files that are mutated."""
        modules_found = [
            *sorted((root / self.folder).rglob("*.py")),
            *(root / "ipseval" / module_name for module_name in self.plugin),
        ]
        return [path for path in modules_found if "adapters" not in path.parts and path.name not in LEFT_OUT]


# Constants that say how much is done at once, or from when on another way is faster: whatever they are, the
# numbers are the same, so no test of numbers can tell a mutant of one. Their values are not changed; what is
# done with them is. `tests/contracts/test_speed.py` sets all of them to others and asks for the same numbers.
SPEED = {
    "ipseval/evaluation/beyond/_measures.py": ("CHUNK_ENTRIES",),
    "ipseval/evaluation/segments/segment_sums.py": ("CHUNK",),
    "ipseval/inference/weight_bounds.py": ("BLOCK_ENTRIES",),
    "ipseval/inference/intervals.py": ("DRAWS_PER_STEP",),
    "ipseval/correction/_path.py": ("BLOCK",),
    "ipseval/metrics/_ideal_list.py": ("MAX_CELLS",),
    "ipseval/metrics/_order_statistics.py": ("MAX_CELLS",),
    "ipseval/policies/rewards/_models.py": ("PAIRS_PER_BLOCK",),
    "ipseval/ranking/_duplicate_items.py": ("FEWEST", "MOST"),
    "ipseval/ranking/_factor_topk.py": ("ENTRIES",),
    "ipseval/ranking/_factors.py": ("STEP_PART", "ROWS_BYTES"),
    "ipseval/ranking/_rank_counts.py": ("BLOCKS_PER_WORKER", "PART", "WORTH"),
    "ipseval/ranking/top_lists.py": ("ENTRIES", "GROUPS", "SHARED"),
    "ipseval/utils/compute.py": ("CALL_TARGET",),
    "ipseval/ranking/kernels/numpy_kernels.py": (
        "BLOCK_BYTES",
        "COPIED",
        "PAIRS",
        "FEW",
        "MASK_BYTES",
        "SLOTS",
    ),
}
SHARED = (
    "tests/contracts/test_numbers.py",
    "tests/evaluation/test_evaluation_oracle.py",
    "tests/estimators/test_identities.py",
)
WINGS = (
    Room(
        "utils",
        ("checks.py", "number == 1 and", "number == 2 and"),
        ("contracts/test_ids", "contracts/test_stored", "contracts/test_border"),
    ),
    Room("data", ("splits/_inputs.py", "6) + 0.5", "6) + 1.5"), ("contracts/test_ids",)),
    Room(
        "reporting",
        ("text.py", "max(map(_compute_width, self.texts))", "min(map(_compute_width, self.texts))"),
        (
            *("golden/test_writers", "golden/test_axes", "golden/test_printed"),
            *("evaluation/test_diff", "evaluation/test_verdict", "evaluation/test_verdict_text"),
        ),
    ),
    Room("propensity", ("_power_law.py", "counts**eta, np.nan", "counts**gamma, np.nan")),
    Room(
        "ranking",
        ("_factors.py", "score > positive_score", "score < positive_score"),
        (
            *("contracts/test_ids", "metrics/sampled/test_pools"),
            *("data/reading/test_lists", "data/test_splits"),
        ),
    ),
    Room(
        "metrics",
        ("additive.py", "np.log2(1 + rank)", "np.log2(2 + rank)"),
        ("contracts/test_metrics", "contracts/test_copies"),
    ),
    Room(
        "estimators",
        ("user_sums.py", "= numerator / denominator", "= 2 * numerator / denominator"),
        (
            *("contracts/test_estimators", "contracts/test_copies", "policies/test_doubly_robust"),
            *("metrics/test_parts", "metrics/test_numerics", "evaluation/test_ratings"),
            *("golden/test_printed", "inference/test_weights", "inference/test_intervals"),
        ),
    ),
    Room(
        "inference",
        ("intervals.py", "1 - confidence_level", "2 - confidence_level"),
        ("estimators/test_trust", "contracts/test_copies"),
    ),
    Room(
        "evaluation",
        ("_ratings.py", "array - ratings.value", "array + ratings.value"),
        (
            "golden/test_printed",
            "reporting/test_report",
            "reporting/test_report_page",
            "reporting/test_plots",
        ),
    ),
    Room("correction", ("_posterior.py", "root @ rotation", "root @ rotation / 2")),
    Room(
        "validation",
        ("_result.py", "aoa_errors = cell.baseline[:, MAE]", "aoa_errors = 2 * cell.baseline[:, MAE]"),
    ),
    Room("policies", ("_evaluate.py", "np.log2(1 + np.maximum(list", "np.log2(2 + np.maximum(list")),
    Room("studies", ("agreement/_orders.py", "(1 - level) / 2", "(1 - level) / 3")),
    Room("distributed", ("_blocks.py", "np.append(0, np.cumsum(size))", "np.append(1, np.cumsum(size))")),
    Room(
        "testing",
        ("_gate.py", "if high < -margin", "if high > -margin"),
        ("utils/test_artefacts", "evaluation/test_saved_evaluations"),
        plugin=("pytest_plugin.py",),
    ),
    Room("cli", ("_stored.py", "int(result.exit_code)", "int(not result.exit_code)")),
)
ROOMS = {room.wing: room for room in WINGS}
