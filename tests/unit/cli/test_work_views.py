"""Words and figures about work, as people read them."""

from __future__ import annotations

from typing import get_args

import pytest

from controlplane.cli import words, work_views
from controlplane.cli.activity import overlap
from controlplane.core.model.answers import RunCounts, State


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (12.4, "12 s"),
        (59.6, "1 min 0 s"),
        (3725, "1 h 2 min"),
        (163376.0, "1 d 21 h"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert work_views.duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, ""), (0, "0 B"), (1500, "1.5 kB"), (250_000, "250 kB"), (3e12, "3.0 TB")],
)
def test_sizes(number: float | None, text: str) -> None:
    assert work_views.size(number) == text


@pytest.mark.parametrize(
    ("name", "is_run"), [("shop", False), ("shop.total", False), ("shop.rev12", True)]
)
def test_a_run_is_told_from_a_dataset(name: str, is_run: bool) -> None:
    assert work_views.is_run(name) == is_run


def test_a_first_commit_names_a_run() -> None:
    assert work_views.is_run("shop.orders:2")


def test_every_word_of_a_summary_is_explained() -> None:
    assert words.COUNTS.keys() == RunCounts.__annotations__.keys()
    assert words.STATES.keys() == set(get_args(State))


@pytest.mark.parametrize(
    ("before", "now", "overlapping"),
    [
        ("", "ab", 0),
        ("ab", "abc", 2),
        ("abc", "bcd", 2),
        ("abc", "abc", 3),
        ("abc", "xyz", 0),
        ("aab", "aba", 2),
    ],
)
def test_of_a_followed_log_only_what_is_new_is_shown(
    before: str, now: str, overlapping: int
) -> None:
    assert overlap(list(before), list(now)) == overlapping
