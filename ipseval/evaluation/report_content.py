"""ReportContent: everything that a report of an evaluation is made of, as one value that renderers read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from ipseval._base.counts import Count
from ipseval.estimators import Estimator
from ipseval.estimators._labels import display_names
from ipseval.estimators._sample import Extent
from ipseval.evaluation._sweeps import PageCurves
from ipseval.evaluation.split_summary import SplitSummary
from ipseval.evaluation.verdict import Verdict
from ipseval.evaluation.verdict_text import VerdictText, describe_assumption
from ipseval.propensity import Propensity


@dataclass(frozen=True, eq=False)
class PageContent:
    """What only a page shows.

    Attributes
    ----------
    differences : DataFrame
        From the first recommender of each metric, as `compare` returns them; empty for a single recommender.
    curves : PageCurves
    record : mapping
        Versions, options and hashes.
    definitions : mapping
        Metric -> its definition and guarantees.
    """

    differences: pd.DataFrame
    curves: PageCurves
    record: Mapping[str, str]
    definitions: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class ReportContent:
    """Everything that a report of an evaluation is made of."""

    models: tuple[str, ...]
    frame: pd.DataFrame
    diagnostics: pd.DataFrame
    verdicts: tuple[Verdict, ...]
    text: VerdictText
    estimators: tuple[Estimator, ...]
    propensity: Propensity | None
    flags: Mapping[tuple[str, str], str]
    size: Extent
    candidates: str
    confidence_level: float
    counts: tuple[Count, ...] = ()
    split: SplitSummary | None = None
    page: PageContent | None = None

    @property
    def names(self) -> dict[str, str]:
        """Estimator label -> its name in tables."""
        return display_names([estimator.label for estimator in self.estimators])

    @property
    def column_names(self) -> dict[str, str]:
        """Estimator label -> the head of its column: its name and the assumption of its weights."""
        support = next((verdict.support for verdict in self.verdicts if verdict.support is not None), None)
        heads = {}
        for estimator in self.estimators:
            head = self.names[estimator.label]
            if estimator.weighted and support is not None:
                head = f"{head} ({describe_assumption(support)})"
            heads[estimator.label] = head
        return heads

    @property
    def estimands(self) -> dict[str, list[str]]:
        """Estimand -> the labels of the estimators that estimate it, in the order given."""
        groups: dict[str, list[str]] = {}
        for estimator in self.estimators:
            groups.setdefault(estimator.estimand, []).append(estimator.label)
        return groups

    def rows(self, metric: str, estimator: str) -> pd.DataFrame:
        """Return the rows of the frame of one metric and estimator."""
        frame = self.frame
        return frame[(frame["metric"] == metric) & (frame["estimator"] == estimator)]
