"""Workbooks of Excel, part by part, so that each part may be broken."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

SPACE = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
# Formats of cells: number, day, time with day, time alone
STYLES = (
    f"<styleSheet {SPACE}><fonts><font/></fonts><cellXfs>"
    '<xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="22"/><xf numFmtId="21"/>'
    "</cellXfs></styleSheet>"
)
DAY, MOMENT, CLOCK = 1, 2, 3


def cell(place: str, value: object, style: int = 0) -> str:
    """A cell as Excel writes it: a number, a truth value, a text, or an error (`#...`)."""
    match value:
        case bool():
            return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
        case int() | float():
            return f'<c r="{place}" s="{style}"><v>{value!r}</v></c>'
        case str() if value.startswith("#"):
            return f'<c r="{place}" t="e"><v>{value}</v></c>'
        case _:
            return f'<c r="{place}" t="inlineStr"><is><t>{escape(str(value))}</t></is></c>'


def sheet(rows: Sequence[Sequence[object]]) -> str:
    """Rows of values, or of (value, style); None is an empty cell."""
    lines = []
    for number, values in enumerate(rows, 1):
        pairs = [v if isinstance(v, tuple) else (v, 0) for v in values]
        cells = (
            cell(f"{chr(65 + i)}{number}", value, style)
            for i, (value, style) in enumerate(pairs)
            if value is not None
        )
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    return sheet_of("".join(lines))


def sheet_of(rows: str, before: str = "") -> str:
    return f"{before}<worksheet {SPACE}><sheetData>{rows}</sheetData></worksheet>"


def workbook(sheets: Mapping[str, str], text: str = "") -> bytes:
    """A file with these sheets. `text`: the one that cells share by the number 0."""
    ids = list(enumerate(sheets, 1))
    entries = "".join(f'<sheet name={quoteattr(n)} sheetId="{i}" r:id="r{i}"/>' for i, n in ids)
    links = "".join(
        f'<Relationship Id="r{i}" Type="{LINKS}/worksheet" Target="worksheets/sheet{i}.xml"/>'
        for i, _ in ids
    )
    texts = f'<Relationship Id="t" Type="{LINKS}/sharedStrings" Target="sharedStrings.xml"/>'
    styles = f'<Relationship Id="s" Type="{LINKS}/styles" Target="styles.xml"/>'
    links += styles + texts
    root = f'<Relationship Id="r" Type="{LINKS}/officeDocument" Target="xl/workbook.xml"/>'
    parts = {
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships">{root}</Relationships>',
        "xl/workbook.xml": f'<workbook {SPACE} xmlns:r="{LINKS}"><sheets>{entries}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">{links}</Relationships>',
        "xl/styles.xml": STYLES,
        "xl/sharedStrings.xml": f"<sst {SPACE}><si><t>{text}</t></si></sst>",
        **{f"xl/worksheets/sheet{i}.xml": sheets[name] for i, name in ids},
    }
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return target.getvalue()
