"""Files of a fragment as they are stored: a text of JSON, most of which are statistics.

Does not belong here: fragments as a whole (`traces`).
"""

from __future__ import annotations

import json
import re

from controlplane.core.model.tasks import StoredFile

_BEGIN = '{"path":'  # keys are sorted
_ONE = re.compile(r'\[\{"path":"([^"\\]*)","rows":[0-9]+,"size":([0-9]+),"stats":')


def stored_files(text: str) -> tuple[StoredFile, ...]:
    """Paths and sizes. The statistics of a single file, which most fragments have, are not parsed:
    they take the most time.

    Within a text of JSON a quotation mark is escaped, so that a second beginning is another file,
    or a column that is called `path`: then all is parsed.
    """
    only_file = _ONE.match(text)
    if only_file is not None and text.find(_BEGIN, 2) < 0:
        return (StoredFile(only_file[1], int(only_file[2])),)
    return tuple(StoredFile(file["path"], file["size"]) for file in json.loads(text))
