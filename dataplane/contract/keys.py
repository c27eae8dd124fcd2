"""Partition keys: from the names of files, by a template, and from the columns of rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypedDict
from urllib.parse import quote, unquote


def encode_segment(text: str) -> str:
    """Percent-encode everything but [A-Za-z0-9._-] in UTF-8."""
    return quote(text, safe="").replace("~", "%7E")


def encode_key(key: str) -> str:
    """A partition key as one path segment that never is `.`, `..`, hidden or empty.

    The empty key is `_`; a leading dot or underscore is percent-encoded.
    """
    if not key:
        return "_"
    text = encode_segment(key)
    return f"%{ord(text[0]):02X}{text[1:]}" if text[0] in "._" else text


def plain_key(key: str) -> str:
    """A partition key as people read it: `place=North America` for `place=North%20America`. A key
    whose plain text would not be visible keeps its escapes."""
    text = unquote(key, errors="replace")
    return text if text.isprintable() and "\N{REPLACEMENT CHARACTER}" not in text else key


def stored_key(text: str) -> str:
    """The key of columns whose plain text this is, with special characters encoded. A value that
    holds `/` is taken for two."""
    parts = (segment.partition("=") for segment in text.split("/"))
    return "/".join(
        encode_segment(name) + equals + encode_segment(value) for name, equals, value in parts
    )


class KeyPart(TypedDict):
    """One part of an output key as a task reads it off rows: `name` stands in the key, `column` in
    the rows.

    `granule` is one of the language (`hour`, `15 minutes`), or empty for the value itself.
    `buckets` > 0 asks for a hash bucket of it.
    """

    name: str
    column: str
    granule: str
    buckets: int


def column_key(names: Sequence[str], texts: Sequence[str | None]) -> str:
    """The partition key of rows that have these texts in the key's columns: `name=text` joined by
    `/`, NULL the bare name. Injective for equal names."""
    parts = zip(map(encode_segment, names), texts, strict=True)
    return "/".join(
        name if text is None else f"{name}={encode_segment(text)}" for name, text in parts
    )


def column_texts(key: str) -> list[str | None]:
    """The texts of which `column_key` made this key."""
    parts = (segment.partition("=") for segment in key.split("/"))
    return [unquote(text) if equals else None for _, equals, text in parts]


def pair_key(key: str, partition: str) -> str:
    """Name of the rows with an output key in one partition of an input. No key of columns holds a
    space."""
    return f"{key} {partition}"


def key_of(name: str, template: str | None) -> str | None:
    """Partition key of a source object whose path below the fixed folder is `name`; None if it does
    not match.

    Without a template the key is the name. A template is matched folder by folder, and the key is
    the placeholders' texts joined by `/`. Everything but [A-Za-z0-9._-] is percent-encoded in each
    of them.
    """
    folders = name.split("/")
    texts = folders if template is None else _match_folders(folders, template.split("/"))
    return None if texts is None else "/".join(map(encode_segment, texts))


def template_pieces(pattern: str) -> list[str]:
    """One folder of a template: literal texts at even places, `{word}` and `*` at odd ones.

    `{word}` stands for one or more characters, up to the first place where the text after it
    follows; `*` for any number, which stay out of the key: so several files share one.
    `{month}-*.csv` is `"" {month} - * .csv`.
    """
    return re.split(r"(\{[^{}]*\}|\*)", pattern)


def _match_folders(folders: Sequence[str], patterns: Sequence[str]) -> list[str] | None:
    if len(folders) != len(patterns):
        return None
    all_texts: list[str] = []
    for folder, pattern in zip(folders, patterns, strict=True):
        texts = _match_folder(folder, template_pieces(pattern))
        if texts is None:
            return None
        all_texts += texts
    return all_texts


def _match_folder(text: str, pieces: Sequence[str]) -> list[str] | None:
    """The placeholders' texts. The leftmost match always suffices, so no template makes this
    slow."""
    first, wildcards, literals = pieces[0], pieces[1::2], pieces[2::2]
    if not wildcards:
        return [] if text == first else None
    if not text.startswith(first):
        return None
    start, texts = len(first), []
    for number, (wildcard, literal) in enumerate(zip(wildcards, literals, strict=True), 1):
        least = start + (wildcard != "*")
        end = text.find(literal, least) if number < len(wildcards) else len(text) - len(literal)
        if end < least or not text.startswith(literal, end):
            return None
        if wildcard != "*":
            texts.append(text[start:end])
        start = end + len(literal)
    return texts
