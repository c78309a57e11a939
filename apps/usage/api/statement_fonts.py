"""Fonts in which any name can be printed: the PDF's own for Latin-1, else Kurinto and Noto, which the OFL lets us ship.

Only fonts that hold a letter that is needed are put into a page: they are large.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fontTools.ttLib import TTFont
from fpdf import FPDF

BUILT_IN = "Helvetica"
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"
_MAIN = "KurintoSans"
_FALLBACKS = (
    "KurintoSansSC", "KurintoSansTC", "KurintoSansJP", "KurintoSansKR",
    "NotoSansKhmer", "NotoSansMyanmar", "NotoSerifTibetan",
)  # fmt: skip


@dataclass(frozen=True)
class Font:
    """`letters` None: all that it is asked to print."""

    family: str
    letters: frozenset[str] | None = None

    def printable(self, text: str) -> str:
        """With a mark for what no font has."""
        if self.letters is None:
            return text
        return "".join(letter if letter in self.letters else UNPRINTABLE for letter in text)


def choose_font(page: FPDF, texts: Iterable[str]) -> Font:
    """Makes the fonts that the texts need known to the page."""
    needed: set[str] = set().union(*texts)
    if all(ord(letter) < 256 for letter in needed):  # noqa: PLR2004 - Latin-1
        return Font(BUILT_IN)
    families = [_MAIN, *_fallbacks_for(needed - _letters_of(_MAIN))]
    for family in families:
        page.add_font(family, "", _file_of(family, "Rg"))
        page.add_font(family, "B", _file_of(family, "Bd"))
    page.set_fallback_fonts(families[1:], exact_match=False)
    page.set_text_shaping(use_shaping_engine=True)
    return Font(_MAIN, frozenset().union(*map(_letters_of, families)))


def _fallbacks_for(missing: set[str]) -> list[str]:
    """Each has a letter that those before it lack."""
    chosen = []
    for family in _FALLBACKS:
        if missing & _letters_of(family):
            chosen.append(family)
            missing -= _letters_of(family)
    return chosen


@cache
def _letters_of(family: str) -> frozenset[str]:
    with TTFont(_file_of(family, "Rg"), lazy=True) as font:
        return frozenset(map(chr, font.getBestCmap()))


def _file_of(family: str, weight: str) -> Path:
    if not family.startswith("Kurinto"):
        return Path(__file__).resolve().parents[1] / "fonts" / f"{family}.ttf"  # one weight for both
    package = find_spec("weblate_fonts")
    if package is None or package.origin is None:
        raise RuntimeError("the package weblate-fonts is not installed: install requirements/base.lock")
    return Path(package.origin).parent / "static/weblate_fonts/kurinto/ttf" / f"{family}-{weight}.ttf"
