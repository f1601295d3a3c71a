"""Every file format is read wherever a log, lists, ids or another table can be a file."""

from __future__ import annotations

import gzip

import pandas as pd
import pytest

import ipseval
from ipseval.data.reading import read_ids
from ipseval.data.reading.table_files import read_table
from ipseval.utils.file_formats import BINARY_FORMATS
from tests.file_formats import BINARY_WRITERS, TEXT_WRITERS, WRITERS, check_writers
from tests.inside.data import BINARY_SOURCES, content_module

FRAME = pd.DataFrame({"user": ["a", "a", "b"], "item": [1, 2, 1], "rank": [1, 2, 1]})


def test_every_binary_format_is_opened_and_written_by_the_tests():
    message = "give each format of ipseval/utils/file_formats.py a row in BINARY_SOURCES of _file_source.py"
    assert set(BINARY_SOURCES) == set(BINARY_FORMATS), message
    check_writers()
    for first_bytes, description, _ in content_module.FOREIGN_FORMATS:
        is_read = first_bytes in BINARY_FORMATS.values()
        assert not is_read, f"remove {description} from FOREIGN_FORMATS of ipseval/data/reading/_content.py"


@pytest.mark.parametrize("name", ["log.csv", "log.parquet", "log"])
@pytest.mark.parametrize("file_format", WRITERS)
def test_the_format_of_a_file_is_known_by_its_content(file_format, name, tmp_path):
    WRITERS[file_format](FRAME, tmp_path / name)
    log = ipseval.read(tmp_path / name).to_frame()
    assert log[["user", "item"]].to_numpy().tolist() == [["a", 1], ["a", 2], ["b", 1]]
    assert ipseval.read_lists(tmp_path / name).entries.item_ids.tolist() == [1, 2]
    assert read_ids(tmp_path / name, of="user").tolist() == ["a", "b"]
    pd.testing.assert_frame_equal(read_table(tmp_path / name), FRAME)


@pytest.mark.parametrize("file_format", WRITERS)
def test_text_and_json_may_be_compressed_and_for_other_formats_the_error_says_what_to_do(
    file_format, tmp_path
):
    WRITERS[file_format](FRAME, tmp_path / "log")
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress((tmp_path / "log").read_bytes()))
    for reader in (ipseval.read, ipseval.read_lists, read_ids, read_table):
        if file_format in TEXT_WRITERS:
            reader(path)
            continue
        with pytest.raises(ipseval.InputError) as caught:
            reader(path)
        assert str(caught.value) == (
            f"{path} must be a {file_format} file as it was written; got one that is compressed as a whole. "
            "Decompress it first."
        )


@pytest.mark.parametrize("file_format", BINARY_WRITERS)
def test_the_error_for_half_of_a_file_names_it(file_format, tmp_path):
    path = tmp_path / "log"
    BINARY_WRITERS[file_format](FRAME, path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ipseval.InputError, match=r"^cannot read .*log "):
        ipseval.read(path)
