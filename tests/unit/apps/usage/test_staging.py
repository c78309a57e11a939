import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.usage.services.staging import csv_line, quoted

pytestmark = pytest.mark.unit


@given(st.lists(st.text(max_size=12), min_size=1, max_size=4))
def test_whatever_a_client_chose_comes_back_as_one_value_each(texts):
    line = csv_line([1, quoted(texts, [8] * len(texts)), None])
    (row,) = csv.reader(io.StringIO(line, newline=""), strict=True)
    assert row == ["1", *[text.replace("\x00", "")[:8] for text in texts], "None"]


def test_a_text_that_reads_none_is_no_null():
    assert csv_line([None, quoted(["None"], [9])]) == 'None,"None"\n'
