"""The table of the correction on CM100K, from scores by hand."""

from __future__ import annotations

import pandas as pd

from ipseval.correction import CORRECTED, RANDOM_SAMPLE
from ipseval.estimators.labels import AOA_POOLED
from reproductions import cm100k


def make_scores() -> pd.DataFrame:
    """Return the scores of two divisions without and with exposed users; half of the corrections warn."""
    rows = []
    for size in cm100k.SIZES:
        for estimator in (AOA_POOLED, RANDOM_SAMPLE, CORRECTED):
            if estimator == RANDOM_SAMPLE and not size:
                continue
            for number in range(2):
                for metric in cm100k.METRICS:
                    rows.append(
                        {
                            "size": size,
                            "estimator": estimator,
                            "number": number,
                            "metric": metric,
                            "error": 0.04 if estimator == RANDOM_SAMPLE else 0.01,
                            "covered": float(number == 0),
                            "warned": float(number == 1 and size > 0),
                        }
                    )
    return pd.DataFrame(rows)


def test_the_table_of_the_correction_has_the_share_of_corrections_that_warn():
    lines = cm100k.correction_table(make_scores()).splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert cells[0][-1] == "warned, %"
    warned = {(row[0], row[1]): row[-1] for row in cells[2:]}
    assert warned["0", CORRECTED] == "0"
    assert warned["25", CORRECTED] == "50"
    assert warned["25", RANDOM_SAMPLE] == ""
    assert warned["0", AOA_POOLED] == ""
    of_correction = next(row for row in cells if row[:2] == ["25", CORRECTED])
    assert of_correction[3] == " ".join(["0.25"] * len(cm100k.METRICS))
    assert of_correction[4] == " ".join(["50"] * len(cm100k.METRICS))
