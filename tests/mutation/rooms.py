"""The rooms whose tests are tested: what is mutated, by which tests it has to be found, and the controls."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Room:
    """Files, the fast tests that concern them, and the control: a change that has to be found."""

    files: str
    tests: tuple[str, ...]
    control: tuple[str, str, str]  # file, text, and what it is replaced with
    left_out: tuple[str, ...] = field(default=())

    def paths(self, root: Path) -> list[Path]:
        """Return the files that are mutated."""
        found = sorted(root.glob(self.files))
        found = [path for path in found if "adapters" not in path.parts]
        return [path for path in found if path.name not in ("__init__.py", "baselines.py", *self.left_out)]


# Constants that say how much is done at once, or from when on another way is faster: whatever they are, the
# numbers are the same, so no test of numbers can tell a mutant of one. Their values are not changed; what is
# done with them is. `tests/contracts/test_speed.py` sets all of them to others and asks for the same numbers.
SPEED = {
    "ipseval/metrics/_ideal_list.py": ("CELLS",),
    "ipseval/metrics/_ties.py": ("CELLS",),
    "ipseval/ranking/_exact_topk.py": ("FEWEST", "MOST"),
    "ipseval/ranking/kernels/numpy_count.py": ("MASK_BYTES", "SLOTS"),
    "ipseval/ranking/_factors.py": ("STEP_PART", "ROWS_BYTES"),
    "ipseval/ranking/_top_lists.py": ("ENTRIES", "SHARED"),
    "ipseval/ranking/kernels/numpy_kernels.py": ("COPIED", "PAIRS", "FEW"),
}
SHARED = (
    "tests/contracts/test_numbers.py",
    "tests/evaluation/test_evaluation_oracle.py",
    "tests/estimators/test_identities.py",
)
ROOMS = {
    "estimators": Room(
        "ipseval/estimators/*.py",
        (
            *SHARED,
            *("tests/contracts/test_estimators.py", "tests/contracts/test_copies.py"),
            *("tests/metrics/test_parts.py", "tests/metrics/test_numerics.py"),
            "tests/policies/test_doubly_robust.py",
            *("tests/inference/test_weights.py", "tests/evaluation/test_ratings.py"),
            *("tests/inference/test_intervals.py", "tests/golden/test_printed.py"),
            *(f"tests/estimators/test_{name}.py" for name in ("sums", "claims", "estimators", "trust")),
        ),
        ("ipseval/estimators/_sums.py", "= numerator / denominator", "= 2 * numerator / denominator"),
    ),
    "metrics": Room(
        "ipseval/metrics/*.py",
        (
            *SHARED,
            *(f"tests/metrics/test_{name}.py" for name in ("known_answers", "labels", "parts", "numerics")),
            *(f"tests/metrics/test_{name}.py" for name in ("docs", "enumeration", "traits")),
            *("tests/contracts/test_metrics.py", "tests/contracts/test_copies.py"),
        ),
        ("ipseval/metrics/_additive.py", "np.log2(1 + rank)", "np.log2(2 + rank)"),
    ),
    "inference": Room(
        "ipseval/inference/*.py",
        (*SHARED, "tests/inference", "tests/estimators/test_trust.py", "tests/contracts/test_copies.py"),
        ("ipseval/inference/_intervals.py", "1 - confidence_level", "2 - confidence_level"),
    ),
    "ranking": Room(
        "ipseval/ranking/**/*.py",
        (
            *(*SHARED, "tests/ranking", "tests/contracts/test_ids.py"),
            *("tests/metrics/sampled/test_pools.py", "tests/data/reading/test_lists.py"),
            "tests/data/test_splits.py",
        ),
        ("ipseval/ranking/_factors.py", "score > own", "score < own"),
        # Compiled code: another engine, which must give the integers of the NumPy kernels.
        left_out=(
            "numba_compile.py",
            "numba_kernels.py",
            "numba_count.py",
        ),
    ),
    "testing": Room(
        "ipseval/testing/*.py",
        (
            *("tests/testing", "tests/base/test_artefacts.py"),
            "tests/evaluation/test_saved_evaluations.py",
        ),
        ("ipseval/testing/_gate.py", "if high < -margin", "if high > -margin"),
    ),
    "report": Room(
        "ipseval/report/*.py",
        (
            *(f"tests/report/test_{name}.py" for name in ("report", "report_page", "report_names", "reprs")),
            "tests/evaluation/test_diff.py",
            *("tests/golden/test_writers.py", "tests/golden/test_pictures.py"),
            *("tests/golden/test_printed.py", "tests/evaluation/test_verdict.py"),
        ),
        ("ipseval/report/_text.py", "max(map(_width, column))", "min(map(_width, column))"),
    ),
}  # fmt: skip
