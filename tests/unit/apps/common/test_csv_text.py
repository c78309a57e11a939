import pytest

from apps.common.csv_text import csv_lines

pytestmark = pytest.mark.unit


def test_a_text_that_a_spreadsheet_would_run_is_defused():
    assert list(csv_lines(["name"], [["=HYPERLINK(1)"], ["@cmd"], ["plain"]])) == [
        "name\r\n",
        "'=HYPERLINK(1)\r\n",
        "'@cmd\r\n",
        "plain\r\n",
    ]


def test_numbers_stay_numbers():
    assert list(csv_lines(["cost"], [[-1.5]]))[1] == "-1.5\r\n"
