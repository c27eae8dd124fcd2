"""Folders named `key=value`, as Hive, Spark, Arrow and DuckDB write them: the columns that a file's
path gives.

region=EU/day=2024-01-01/part-0.parquet     region is EU, day is 2024-01-01
place=North%20America                       names and values are percent-encoded UTF-8
place=__HIVE_DEFAULT_PARTITION__            NULL
place=__HEADGATE_EMPTY__                    the empty text, for which Hive has no name
day%3D2013-01                               no key: our writer encodes `=` in granules and buckets
"""

from __future__ import annotations

from typing import Final, TypeAlias
from urllib.parse import unquote_to_bytes

# Keys in the order of the path, with decoded texts. In JSON, and so in objects of a listing, a pair
# is a list.
KeyFolders: TypeAlias = list[tuple[str, str | None]]

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
EMPTY: Final = "__HEADGATE_EMPTY__"
SETTING: Final = "hive_partitioning"  # of the connector `files`


def key_folders(name: str) -> KeyFolders:
    """The keys of a file by its name below the fixed folder. A key that comes twice is there
    twice."""
    parts = (folder.partition("=") for folder in name.split("/")[:-1])
    return [(_decoded(key), _value(text)) for key, is_key, text in parts if key and is_key]


def _value(text: str) -> str | None:
    if text == NULL:
        return None
    return "" if text == EMPTY else _decoded(text)


def _decoded(text: str) -> str:
    """Text whose percent signs encode no UTF-8 stays as it is."""
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        return text
