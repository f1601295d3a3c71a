"""Private names of ipseval.data that tests reach for."""

from __future__ import annotations

from ipseval.data.random_exposure import _fit_popularity_slope as fit_popularity_slope
from ipseval.data.reading import _content as content_module
from ipseval.data.reading._content import START, decode_start, read_bytes, read_start, refuse_foreign
from ipseval.data.reading._dialect import (
    count_fields,
    find_quoting,
    find_separator,
    has_header,
    is_regular,
    split_fields,
)
from ipseval.data.reading._file_source import BINARY_SOURCES
from ipseval.data.reading._id_columns import encode_id_column, find_places
from ipseval.data.reading._list_cells import text_holds_lists
from ipseval.data.reading._open_source import open_source
from ipseval.data.reading._order_checks import check_ranks, check_scores
from ipseval.data.reading._role_checks import ColumnTraits, check_assignment, check_unread_outcomes
from ipseval.data.reading._source import ReadOptions
from ipseval.data.reading._text import _collapse_blanks as collapse_blanks
from ipseval.data.reading._text import _normalise as normalise
from ipseval.data.reading._text import _use_unchanged as use_unchanged
from ipseval.data.reading._text import find_layout
from ipseval.data.reading._time_columns import read_times
from ipseval.data.reading._value_columns import format_rows, read_numbers, read_truth_values
from ipseval.data.reading._whole_numbers import (
    are_whole_numbers,
    is_in_usual_spelling,
    sum_field_lengths,
    sum_lengths_of_numbers,
)
from ipseval.data.reading.rating_scale import find_rating_scale, means_ratings
from ipseval.data.reading.record_source import are_records, open_records
from ipseval.data.splits._leakage import Leakage
