"""Templates: one environment that escapes everything, and what all templates may call."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from controlplane.core.durations import duration
from controlplane.core.model.answers import Spread
from controlplane.core.model.answers.health import OpenProblem
from controlplane.core.model.branches import MAIN
from controlplane.core.model.json_values import JsonValue
from controlplane.operations.inspect.data_age import in_words
from controlplane.operations.inspect.standstill import NOTHING
from controlplane.ui import draw, moments, pictures, side_by_side, static_files
from controlplane.ui.branch_links import within
from controlplane.ui.page_types import HomePage
from controlplane.ui.query_values import type_kind
from dataplane.contract.keys import plain_key

THEMES = ("light", "dark")
CAUSES: Mapping[str | None, str] = {
    "missing": "first run",
    "input": "an input changed",
    "logic": "the code changed",
    "forced": "manual",
    "schema": "the schema changed",
    "removed": "partitions removed",
    "period": "a period began",
    "retry": "tried again",
    "sync": "exported",
    "lost": "files were lost",
    "rollback": "rolled back",
    "imported": "imported",
    "resume": "resumed after a rollback",
}
SIGNS: Mapping[str, str] = {  # before the title of a tab
    "failed": "\u2715",
    "stale": "!",
    "building": "\u25b8",
    "up_to_date": "\u2713",
}
KINDS: Mapping[str, str] = {
    "sql": "SQL",
    "python": "PY",
    "read": "READ",
    "write": "WRITE",
    "quarantine": "KEPT OUT",
}
FRAME = "base.html"  # has fragments that every page has
# As sentences have it (`explain.cause_sentences.instant`)
_INSTANT = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ)")
_TICKS = re.compile(r"`([^`\n]+)`")
# Of requests that a page of ours, or a person, has made
OWN_SITES = frozenset({"same-origin", "none"})
ZIP_LEVEL = 5
TIME_UNITS = (("h", 3600, 5400), ("min", 60, 90), ("s", 1, 0))  # seconds of one, and from when
PART = "part_"  # begins the names of blocks that are fragments


@cache
def environment() -> Environment:
    env = Environment(
        loader=PackageLoader("controlplane.ui"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(
        human=draw.human, compact=_compact, count=_count, words=_words, sentence=_sentence
    )
    env.filters.update(
        bytes=_bytes, first_line=_first_line, short=_short, marked=_marked, instant=_instant
    )
    env.filters.update(percent=_percent, ticked=ticked, prose=_prose, code_parts=code_parts)
    env.filters.update(spread=_spread, hunks=side_by_side.hunks, type_kind=type_kind)
    env.filters.update(
        lit=lit,
        standing=_standing,
        sign=_sign,
        tab_title=_tab_title,
        span=in_words,
        duration=duration,
    )
    env.filters.update(cell_address=pictures.address_of, cell_words=pictures.words_of)
    env.filters.update(
        headline=moments.headline, outcome=moments.outcome, capital=_capital, plain_key=plain_key
    )
    env.globals.update(
        static=static_files.url,
        causes=CAUSES,
        kinds=KINDS,
        release=version("headgate"),
    )
    return env


def _count(number: int) -> str:
    return f"{number:,}"


def _bytes(number: int) -> str:
    """In the largest unit of 1,000 of which there is one."""
    size, units = float(number), ["B", "kB", "MB", "GB", "TB", "PB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{number} B" if units[0] == "B" else f"{size:.3g} {units[0]}"


def _percent(share: float) -> str:
    """In two digits: `42 %`, `7.8 %`, `0.04 %`."""
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 or not percent else f"{percent:.2g} %"


def _spread(seconds: Spread) -> str:
    """What work takes, in the unit of its median: `2.0 min (1.9 to 5.0)`."""
    median = seconds["median"]
    unit, size = next((unit, size) for unit, size, least in TIME_UNITS if median >= least)
    amounts = (median / size, seconds["low"] / size, seconds["high"] / size)
    digits = 0 if amounts[0] >= 10 else 1
    middle, low, high = (f"{amount:,.{digits}f}" for amount in amounts)
    return f"{middle} {unit} ({low} to {high})"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _sentence(text: str) -> str:
    """With a capital and a full stop."""
    text = text.strip()
    if not text:
        return ""
    first = text.split(maxsplit=1)[0]
    start = text[0].upper() if first.isalpha() else text[0]  # names of datasets stay as they are
    return f"{start}{text[1:]}{'' if text[-1] in '.!?:' else '.'}"


def _standing(page: HomePage) -> str:
    """How everything stands, as a headline: what needs a user first."""
    needs = page["needs"]
    kinds = Counter(need["kind"] for need in needs)
    blocked = sum(len(need["blocks"]) for need in needs)
    problems = kinds["failed"] + kinds["waiting"] + kinds["blocked"] + kinds["contract"]
    phrases = [NOTHING] if page["standstill"] else []
    if problems:
        blocking = f", blocking {_counted(blocked, 'dataset')}" if blocked else ""
        phrases.append(_counted(problems, "problem") + blocking)
    if late := _overdue_count(needs):
        phrases.append(f"{_counted(late, 'dataset')} overdue")
    if kinds["warning"]:
        phrases.append(_counted(kinds["warning"], "warning"))
    return "; ".join(phrases) or "All healthy"


def _overdue_count(needs: Sequence[OpenProblem]) -> int:
    """How many datasets have data that is older than it may be."""
    own = sum(need["freshness"] is not None for need in needs)
    return own + sum(b["freshness"] is not None for need in needs for b in need["blocks"])


def _sign(page: HomePage) -> str:
    """The state of everything in the shape of an icon."""
    kinds = {need["kind"] for need in page["needs"]}
    if page["standstill"] or kinds & {"failed", "waiting", "blocked", "contract"}:
        return "failed"
    return "stale" if kinds else "building" if page["work"] else "up_to_date"


def _tab_title(page: HomePage) -> str:
    """The title of a tab: the state of everything, and how many problems there are."""
    count = f" {len(page['needs'])}" if page["needs"] else ""
    return f"{SIGNS[_sign(page)]}{count} · Home · Headgate"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _capital(text: str) -> str:
    """With a capital, unless it begins with a name as of a file."""
    first = text.partition(" ")[0]
    return f"{text[:1].upper()}{text[1:]}" if first.isalpha() else text


def code_parts(text: str) -> list[tuple[str, bool]]:
    """The text in parts, and whether each is code: what stands between two back-ticks in one
    line."""
    return [(part, number % 2 == 1) for number, part in enumerate(_TICKS.split(text)) if part]


def ticked(text: str) -> Markup:
    """The text with code between back-ticks as code, and instants as such, which a browser shows in
    its time zone."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if is_code else _timed(part)
        for part, is_code in code_parts(text)
    )


def _timed(text: str) -> Markup:
    parts: list[Markup] = []
    for number, part in enumerate(_INSTANT.split(text)):
        parts.append(_time(part) if number % 2 else escape(part))
    return Markup("").join(parts)


def _time(instant: str) -> Markup:
    at = instant.replace(" ", "T")
    return Markup('<time datetime="{0}" title="{0}">{1} UTC</time>').format(at, instant.rstrip("Z"))


def _prose(text: str) -> Markup:
    """A sentence, with its code as code."""
    return ticked(_sentence(text))


def lit(text: str, words: Sequence[str]) -> list[tuple[str, bool]]:
    """The text in parts, and whether each is one of the words, without regard to case. Letters stay
    as they are."""
    if not words:
        return [(text, False)]
    longest_first = sorted(set(words), key=len, reverse=True)
    parts = re.split("(" + "|".join(map(re.escape, longest_first)) + ")", text, flags=re.IGNORECASE)
    return [(part, number % 2 == 1) for number, part in enumerate(parts) if part]


def _compact(value: JsonValue) -> str:
    """A nested value of a record in a cell."""
    return json.dumps(value, ensure_ascii=False)


def _instant(seconds: float) -> str:
    """The time of seconds since 1970, as answers write times."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _marked(content: object, mark: bool) -> tuple[bool, object]:
    """For lists that are shown as one."""
    return mark, content


def _first_line(text: str) -> str:
    return next(iter(text.strip().splitlines()), "")


def _short(name: str) -> str:
    """The name of a dataset without its dataflow."""
    return name.rpartition(".")[2]


def page(
    request: Request,
    template: str,
    shown: Mapping[str, Any],
    *,
    status: int = 200,
    part: str = "",
    branch: str = MAIN,
) -> HTMLResponse:
    """A page, or one fragment of it. Its links stay in the branch. KeyError for a fragment that it
    does not have."""
    theme = request.cookies.get("theme", "")
    values = {"theme": theme if theme in THEMES else "", "request": request, **shown}
    compiled = environment().get_template(template)
    if not part:
        return _answer(request, within(compiled.render(values), branch), status)
    block = {**environment().get_template(FRAME).blocks, **compiled.blocks}[PART + part]
    return _answer(request, within("".join(block(compiled.new_context(values))), branch), status)


def _answer(request: Request, text: str, status: int) -> HTMLResponse:
    """Compressed, where no other site has chosen the address: pages repeat parts of it, so the
    length of a compressed page would reveal the rest of it to that site.

    A page that another site opened requests its fragments itself, with what that site wrote into
    the address.
    """
    content, headers = text.encode(), {"Vary": "Accept-Encoding, Sec-Fetch-Site"}
    is_understood = "gzip" in request.headers.get("accept-encoding", "")
    is_own = request.headers.get("sec-fetch-site") in OWN_SITES
    query = request.query_params.keys()
    is_repeated = "part" in query and query != {"part"}
    if is_understood and is_own and not is_repeated:
        content = gzip.compress(content, ZIP_LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return HTMLResponse(content, status, headers)
