"""A process of its own that writes the rows of a file as CSV. A file that takes too much memory,
time or disk ends this process alone.

Run as `python -m dataplane.connectors.files.row_process FORMAT SOURCE TARGET OPTIONS`, options as
JSON. Standard output is the number of columns. With exit code BAD_FILE, the last line of standard
error is the fault of the file: a BadRows as JSON.
"""

from __future__ import annotations

import json
import sys
import zipfile
import zlib
from pathlib import Path

from dataplane.connectors.files.bad_rows import BAD_FILE, BadRows
from dataplane.connectors.files.row_bounds import DISK_BYTES
from dataplane.contract.staged_formats import ExcelOptions, XmlOptions, staged_options
from dataplane.storage.file_process import bound_process


def main(format: str, source: str, target: str, options_text: str) -> int:
    bound_process(DISK_BYTES)
    options = staged_options(format, json.loads(options_text))
    try:
        columns = _write_rows(Path(source), Path(target), options)
    except BadRows as e:
        return _reported(e)
    except (ValueError, EOFError, zlib.error, zipfile.BadZipFile) as e:
        return _reported(BadRows(str(e)))
    sys.stdout.write(str(columns))
    return 0


def _write_rows(source: Path, target: Path, options: object) -> int:
    """The number of columns. Each format imports its own parser alone."""
    if isinstance(options, ExcelOptions):
        from dataplane.connectors.files.excel_rows import write_sheet_rows

        return write_sheet_rows(source, target, options)
    assert isinstance(options, XmlOptions)
    from dataplane.connectors.files.xml_rows import write_xml_rows

    return write_xml_rows(source, target, options.row_tag)


def _reported(fault: BadRows) -> int:
    record = {"message": str(fault)[:500], "condition": fault.condition, "line": fault.line}
    sys.stderr.write(f"{json.dumps(record)}\n")
    return BAD_FILE


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
