"""A statement on paper, whatever scripts the names are in (statement_fonts.py)."""

from collections.abc import Iterable, Sequence

from fpdf import FPDF
from fpdf.enums import XPos, YPos

from apps.usage.api.statement_fonts import choose_font
from apps.usage.selectors.reports import UsageRow, UsageTotals
from apps.usage.selectors.statements import Statement

_HEADS = ("Requests", "Input", "Cached", "Output", "List USD", "Cost USD")
_WIDTHS = (58, 20, 24, 20, 22, 23, 23)
_Line = tuple[str, UsageTotals]


class _Page(FPDF):
    """Prints in the font that all its texts need."""

    def __init__(self, texts: Iterable[str]) -> None:
        super().__init__(format="A4")
        self._font = choose_font(self, texts)

    def use(self, size: int, style: str = "") -> None:
        self.set_font(self._font.family, style, size)

    def printable(self, text: str) -> str:
        return self._font.printable(text)


def statement_pdf(statement: Statement) -> bytes:
    page = _Page([statement.tenant.name, *map(_version_of, statement.by_version)])
    page.set_creation_date(statement.made_at)
    page.set_title(f"Statement {statement.tenant.name} {statement.month.first_day:%Y-%m}")
    page.set_auto_page_break(auto=True, margin=18)
    page.add_page()
    _head(page, statement)
    by_version: list[_Line] = [(_version_of(row), row) for row in statement.by_version]
    by_day: list[_Line] = [(f"{row.day:%Y-%m-%d}" if row.day else "", row) for row in statement.by_day]
    _table(page, "By model and version, in tokens and US dollars", by_version, statement.totals)
    _table(page, "By day, in tokens and US dollars", by_day, statement.totals)
    _notes(page, statement)
    return bytes(page.output())


def _head(page: _Page, statement: Statement) -> None:
    _line(page, "Tokenyard", size=11)
    _line(page, f"Statement for {statement.month.first_day:%B %Y}", size=20, style="B")
    _line(page, f"Tenant {statement.tenant.name}", size=12)
    _line(page, f"Calendar month in {statement.zone.key}; made {statement.made_at:%Y-%m-%d %H:%M} UTC", size=9)
    page.ln(4)
    _line(page, f"Amount: {statement.amount_usd:,.2f} USD", size=16, style="B")
    _line(page, f"exactly {statement.totals.cost_usd:f} USD, after discounts of {statement.discount_usd:f} USD", size=9)
    _line(page, "Final." if statement.is_final else "Not final; the notes at the end say why.", size=9, style="B")
    page.ln(4)


def _table(page: _Page, title: str, lines: Iterable[_Line], totals: UsageTotals) -> None:
    _line(page, title, size=12, style="B")
    page.use(8, "B")
    _cells(page, ["", *_HEADS])
    page.use(8)
    for name, row in lines:
        _cells(page, [name[:40], *_figures(row)])
    page.use(8, "B")
    _cells(page, ["Total", *_figures(totals)])
    page.ln(4)


def _figures(row: UsageTotals) -> list[str]:
    counts = (row.request_count, row.input_tokens, row.cached_input_tokens, row.output_tokens)
    return [*(f"{count:,}" for count in counts), f"{row.list_usd:,.6f}", f"{row.cost_usd:,.6f}"]


def _notes(page: _Page, statement: Statement) -> None:
    totals = statement.totals
    notes = [
        f"{totals.request_count:,} requests, {totals.unsuccessful_count:,} of them not completed.",
        "Each request is rounded once, to 1e-12 USD, a half upwards. Sums are exact; the amount is in whole cents.",
        "Figures in the tables are shown to six decimals.",
    ]
    if statement.reratings:
        notes.append(f"Re-ratings applied: {', '.join(map(str, statement.reratings))}.")
    if late := statement.latecomers.request_count:
        notes.append(
            f"{late:,} of the requests, {statement.latecomers.cost_usd:f} USD, came after "
            f"{statement.complete_at.astimezone(statement.zone):%Y-%m-%d %H:%M}: an earlier statement lacks them."
        )
    notes.append(f"Not final: {'; '.join(statement.open_reasons)}." if statement.open_reasons else "Final.")
    for note in notes:
        _line(page, note, size=8)


def _cells(page: _Page, texts: Sequence[str]) -> None:
    for width, text in zip(_WIDTHS, texts, strict=True):
        align = "L" if page.get_x() <= page.l_margin else "R"
        page.cell(width, 5, page.printable(text), border="B", align=align, new_x=XPos.RIGHT, new_y=YPos.TOP)
    page.ln(5)


def _line(page: _Page, text: str, *, size: int, style: str = "") -> None:
    page.use(size, style)
    page.multi_cell(0, size / 2 + 1, page.printable(text), new_x=XPos.LMARGIN, new_y=YPos.NEXT)


def _version_of(row: UsageRow) -> str:
    """With the route, where that has another name than the version's model."""
    version, route = row.names["version"], row.names["model"]
    if not version or not route or version.startswith(f"{route}:"):
        return version or route or "no model"
    return f"{version} by {route}"
