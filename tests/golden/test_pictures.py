"""Pictures are drawn as their files show them; after a change `python -m tests.golden.pictures`
or `python -m tests.golden.axes`, and look.
"""

from __future__ import annotations

import pytest

from tests.golden import axes
from tests.golden.pictures import FOLDER, PICTURES, drawn


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_drawn_as_its_file_shows_it(name):
    assert drawn(name) == (FOLDER / f"{name}.svg").read_text(encoding="utf-8")


def test_axes_agree_with_their_stored_description():
    assert axes.text() == axes.FILE.read_text(encoding="utf-8")
