import pytest
from fpdf import FPDF

from apps.usage.api.statement_fonts import BUILT_IN, UNPRINTABLE, choose_font

pytestmark = pytest.mark.unit

SCRIPTS = "Ελληνικά Русский עברית العربية हिन्दी বাংলা தமிழ் ไทย 中文 日本語 한국어 ქართული Հայերեն አማርኛ ខ្មែរ မြန်မာ བོད සිංහල"


def test_latin_names_need_no_font_of_ours():
    assert choose_font(FPDF(), ["Café Zürich", "x"]).family == BUILT_IN


@pytest.mark.parametrize("name", SCRIPTS.split())
def test_every_letter_of_a_script_has_a_font(name):
    assert choose_font(FPDF(), [name]).printable(name) == name


def test_what_no_font_has_is_marked():
    font = choose_font(FPDF(), ["λ\U0010fffd"])
    assert font.printable("λ\U0010fffd") == f"λ{UNPRINTABLE}"
