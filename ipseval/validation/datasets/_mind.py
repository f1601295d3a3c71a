"""MIND: impressions of news with clicks."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ipseval.data.impression_log import ImpressionLog
from ipseval.errors import InputError
from ipseval.evaluation.slates import read_mind
from ipseval.utils.public import public_function

NAME = "behaviors.tsv"
TIME_FORMAT = "%m/%d/%Y %I:%M:%S %p"


@public_function
def load_mind(path: str | Path) -> ImpressionLog:
    r"""Load the impressions of MIND: every news item that was shown, with its click.

    The items of an impression were shuffled by the authors, so the log has no positions.

    Parameters
    ----------
    path : str or Path
        Folder with `behaviors.tsv`, such as `MINDsmall_train`, or the file itself: impression id, user, time,
        history, and items with labels as in "N1-1 N2-0", with tabs between.

    Returns
    -------
    ImpressionLog
        One row for each item shown, with the time and the impression as query.

    Raises
    ------
    InputError
        When the file is missing or of another layout, and for items without a label, as in the test part.

    See Also
    --------
    ipseval.evaluation.slates.read_mind : Read the same file for the evaluation of rankings within impressions.

    Examples
    --------
    A file with one impression of two news items:

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "behaviors.tsv")
    ...     _ = file.write_text("1\tU1\t11/11/2019 9:05:58 AM\t\tN1-0 N2-1\n")
    ...     load_mind(folder)
    ImpressionLog(2 impressions, 1 click, 1 user, 2 items)

    References
    ----------
    Wu et al., "MIND: A large-scale dataset for news recommendation", ACL 2020,
    doi:10.18653/v1/2020.acl-main.331
    """
    file = Path(path)
    if file.is_dir():
        file = file / NAME
    frame = read_mind(file)
    try:
        frame["time"] = pd.to_datetime(frame["time"], format=TIME_FORMAT)
    except ValueError as error:
        raise InputError(f"{file}: times must be as in 11/11/2019 9:05:58 AM; {error!s:.200}.") from None
    return ImpressionLog.from_frame(frame, clicked="label", timestamp="time", query="query")
