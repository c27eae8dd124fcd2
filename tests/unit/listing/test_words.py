"""What a file holds may get into a message: it is shortened, and made visible."""

from __future__ import annotations

import json

from dataplane import error_words


def test_a_message_stays_as_it_is() -> None:
    text = (
        "the column 'amount' isn't there, it's \"total\" in file:///data/"
        + "deep/" * 60
        + "a.csv\n\tö – ok"
    )
    assert error_words.message(text) == text


def test_long_names_are_shortened_whatever_quotes_them() -> None:
    for quote in "'\"`":
        told = error_words.message(
            f"column {quote}{'n' * 101}{quote} of {quote}b{quote} is not there"
        )
        assert told == f"column {quote}{'n' * 100}…{quote} of {quote}b{quote} is not there"


def test_an_environment_as_a_header_is_not_told() -> None:
    header = "PATH=/usr/bin\0" + "KEY=hunter2\0" * 50
    told = error_words.message(f"unknown column {header} in a.csv")
    assert "\0" not in told
    assert told.startswith("unknown column PATH=/usr/bin\\x00KEY=")
    assert told.endswith("… in a.csv")
    assert len(told) < 150


def test_messages_and_details_are_bounded_and_can_be_sent() -> None:
    odd = "\ud800 \x1b[31m \u202e" + "ab " * 100_000 + "the end"
    assert len(error_words.message(odd)) <= error_words.LONGEST_MESSAGE + len(error_words.CUT)
    detail = error_words.detail(odd)
    assert len(detail) <= error_words.LONGEST_DETAIL + 3
    assert detail.endswith("the end")
    assert error_words.message(odd).startswith("\\ud800 \\x1b[31m \\u202e")
    json.dumps(detail, ensure_ascii=False).encode()
