import pytest

from apps.common.csv_text import csv_parts

pytestmark = pytest.mark.unit


def test_a_text_that_a_spreadsheet_would_run_is_defused():
    assert list(csv_parts(["name"], [["=HYPERLINK(1)"], ["@cmd"], ["plain"]])) == [
        "name\r\n",
        "'=HYPERLINK(1)\r\n'@cmd\r\nplain\r\n",
    ]


def test_numbers_stay_numbers():
    assert list(csv_parts(["cost"], [[-1.5]]))[1] == "-1.5\r\n"


def test_lines_come_before_the_last_row_is_read():
    asked = []
    parts = csv_parts(["number"], (asked.append(number) or [number] for number in range(2000)))
    assert next(parts) == "number\r\n"
    assert next(parts).startswith("0\r\n1\r\n")
    assert len(asked) < 2000
    assert "".join(parts).endswith("\r\n1999\r\n")
