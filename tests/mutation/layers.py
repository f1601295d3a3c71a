"""The layers of the library for the mutation run: the files to mutate, their tests and one control each.

The run does not mutate `errors`, the `__init__.py` of a layer, the recommenders of `baselines`, and code that
another library runs: adapters, Dask, Spark, and the compiled kernels, whose results must equal those of NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LEFT_OUT = (
    *("__init__.py", "baselines.py", "_dask.py", "_spark.py"),
    *("numba_compile.py", "numba_kernels.py", "numba_count.py"),
)


@dataclass(frozen=True)
class Layer:
    """A layer, its control (a change that the tests must find), and fast tests in folders of other layers."""

    name: str
    control: tuple[str, str, str]  # a file of the layer, a text in it, and the replacement of the text
    elsewhere: tuple[str, ...] = ()
    plugin: tuple[str, ...] = ()  # files of the layer outside its folder

    @property
    def folder(self) -> str:
        """The folder of the layer."""
        return f"ipseval/{self.name}"

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests in the folder of the layer, the tests of all layers, and the tests in other folders."""
        return (
            f"tests/{self.name}/",
            *SHARED,
            *(f"tests/{module_name}.py" for module_name in self.elsewhere),
        )

    def paths(self, root: Path) -> list[Path]:
        """Return the files to mutate."""
        modules = [
            *sorted((root / self.folder).rglob("*.py")),
            *(root / "ipseval" / module_name for module_name in self.plugin),
        ]
        return [path for path in modules if "adapters" not in path.parts and path.name not in LEFT_OUT]


# Constants that set the size of a block, or the size from which another algorithm is faster. They do not change
# any number, so no test of numbers can find a mutant of one. The run leaves out their values, but not the code
# that uses them. `tests/contracts/test_speed.py` sets all of them to other values and expects the same numbers.
SPEED = {
    "ipseval/evaluation/beyond/_measures.py": ("CHUNK_ENTRIES",),
    "ipseval/evaluation/segments/segment_sums.py": ("CHUNK",),
    "ipseval/inference/comparisons.py": ("FEW",),
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
        "TILE",
    ),
}
SHARED = (
    "tests/contracts/test_numbers.py",
    "tests/evaluation/test_evaluation_oracle.py",
    "tests/estimators/test_identities.py",
)
_LAYERS = (
    Layer(
        "utils",
        ("checks.py", "number == 1 and", "number == 2 and"),
        ("contracts/test_ids", "contracts/test_stored", "contracts/test_border"),
    ),
    Layer("data", ("splits/_inputs.py", "6) + 0.5", "6) + 1.5"), ("contracts/test_ids",)),
    Layer(
        "reporting",
        ("text.py", "max(map(_compute_width, self.texts))", "min(map(_compute_width, self.texts))"),
        (
            *("golden/test_writers", "golden/test_axes", "golden/test_printed"),
            *("evaluation/test_diff", "evaluation/test_verdict", "evaluation/test_verdict_text"),
        ),
    ),
    Layer("propensity", ("_power_law.py", "counts**eta, np.nan", "counts**gamma, np.nan")),
    Layer(
        "ranking",
        ("_factors.py", "score > positive_score", "score < positive_score"),
        (
            *("contracts/test_ids", "metrics/sampled/test_pools"),
            *("data/reading/test_lists", "data/test_splits"),
        ),
    ),
    Layer(
        "metrics",
        ("additive.py", "np.log2(1 + rank)", "np.log2(2 + rank)"),
        ("contracts/test_metrics", "contracts/test_copies"),
    ),
    Layer(
        "estimators",
        ("user_sums.py", "= numerator / denominator", "= 2 * numerator / denominator"),
        (
            *("contracts/test_estimators", "contracts/test_copies", "policies/test_doubly_robust"),
            *("metrics/test_parts", "metrics/test_numerics", "evaluation/test_ratings"),
            *("golden/test_printed", "inference/test_weights", "inference/test_intervals"),
        ),
    ),
    Layer(
        "inference",
        ("intervals.py", "1 - confidence_level", "2 - confidence_level"),
        ("estimators/test_trust", "contracts/test_copies"),
    ),
    Layer(
        "evaluation",
        ("_ratings.py", "array - ratings.value", "array + ratings.value"),
        (
            "golden/test_printed",
            "reporting/test_report",
            "reporting/test_report_page",
            "reporting/test_plots",
        ),
    ),
    Layer("correction", ("_posterior.py", "root @ rotation", "root @ rotation / 2")),
    Layer(
        "validation",
        ("_result.py", "aoa_errors = cell.baseline[:, MAE]", "aoa_errors = 2 * cell.baseline[:, MAE]"),
    ),
    Layer("policies", ("_evaluate.py", "np.log2(1 + np.maximum(list", "np.log2(2 + np.maximum(list")),
    Layer("studies", ("agreement/_orders.py", "(1 - level) / 2", "(1 - level) / 3")),
    Layer("distributed", ("_blocks.py", "np.append(0, np.cumsum(size))", "np.append(1, np.cumsum(size))")),
    Layer(
        "testing",
        ("_gate.py", "if high < -margin", "if high > -margin"),
        ("utils/test_artefacts", "evaluation/test_saved_evaluations"),
        plugin=("pytest_plugin.py",),
    ),
    Layer("cli", ("_stored.py", "int(result.exit_code)", "int(not result.exit_code)")),
)
LAYERS = {layer.name: layer for layer in _LAYERS}
