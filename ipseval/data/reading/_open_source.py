"""Opening of any source: a file, a folder, a mapping or a data frame becomes a table of one interface."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from ipseval.data.reading._file_source import open_file
from ipseval.data.reading._frame_source import open_frame
from ipseval.data.reading._list_rows import explode_lists
from ipseval.data.reading._mapping_source import open_mapping
from ipseval.data.reading._source import ReadOptions, Source
from ipseval.data.reading.record_source import are_records, open_records
from ipseval.utils.checks import refuse_masked


def open_source(source: object, options: ReadOptions, frame_name: str = "the data frame") -> Source:
    """Return the table of a source, with a row for each entry of its lists unless they stay lists."""
    if isinstance(source, Source):
        return source
    table = _open_table(source, options, frame_name)
    if options.lists == "stay" or not table.lists:
        return table
    return explode_lists(table, adds_rank=options.lists == "ranks")


def _open_table(source: object, options: ReadOptions, frame_name: str) -> Source:
    """Return the table of a source, in which lists stay lists."""
    if isinstance(source, (str, os.PathLike)):
        return replace(open_file(source, options), is_file=True)
    if isinstance(source, Mapping):
        return open_mapping(source, options, frame_name)
    if are_records(source):
        return open_records(source, "the list")
    refuse_masked(source, "the source")
    return open_frame(source, frame_name)
