"""Changes at sources, and the times of their listings, as lines for people. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from controlplane.cli.output import Lines, View

if TYPE_CHECKING:
    from controlplane.core.model.answers import RefreshAnswer, SourceChange


def lines(sources: Sequence[SourceChange]) -> list[str]:
    """Changes of each source, failed listings, and the time of the oldest listing."""
    changed = [line for source in sources for line in _changes(source)]
    problems = [
        f"{source['dataset']}: {source['problem']}" for source in sources if source["problem"]
    ]
    silent = {source["dataset"] for source in sources if source["problem"]}
    return [
        *changed,
        *problems,
        *times({source["dataset"]: source["as_of"] for source in sources}, silent),
        *(next_look(source["dataset"], source["due"]) for source in sources if "due" in source),
        *(f"{source['dataset']}: {source['pulled']}" for source in sources if "pulled" in source),
    ]


def next_look(dataset: str, due: str) -> str:
    """The line of a source that is looked at by a cron expression."""
    return f"{dataset}: next look at {second_of(due)}"


def each(sources: Sequence[SourceChange]) -> Iterator[str]:
    """A line for each source that changed or could not be looked at: `flow.c: 1 changed; looked at
    2026-...`."""
    for source in sources:
        counted = zip(_counts(source), ("added", "changed", "removed"), strict=True)
        parts = [
            ", ".join(f"{count:,} {what}" for count, what in counted if count),
            source["problem"] or "",
        ]
        notes = "; ".join(part for part in parts if part)
        if notes:
            looked = (
                f"looked at {second_of(source['as_of'])}"
                if source["as_of"]
                else "no current listing"
            )
            yield f"{source['dataset']}: {notes}; {looked}"


def refreshed(value: RefreshAnswer) -> View:
    """The changes; without waiting, the listings that were requested."""
    forced = [f"{dataset} is computed again" for dataset in value["forced"]]
    forced += [
        f"the columns of {dataset} are inferred again" for dataset in value.get("schemas", ())
    ]
    if "changes" not in value:
        return [
            Lines(
                (
                    f"listings asked for: {value['listings']} ({', '.join(value['sources'])})",
                    *forced,
                )
            )
        ]
    changed = lines(value["changes"])
    is_same = not any(any(_counts(s)) or s["problem"] for s in value["changes"])
    return [
        Lines((*(["nothing changed since the last listing"] if is_same else []), *changed, *forced))
    ]


def _changes(source: SourceChange) -> Iterator[str]:
    """`flow.c: 1.csv changed`, a line for each of the first; the rest is counted."""
    for change in source["objects"]:
        yield f"{source['dataset']}: {change['name']} {change['change']}"
    added, changed, removed = _counts(source)
    unshown = added + changed + removed - len(source["objects"])
    if unshown > 0:
        yield f"{source['dataset']}: ... {unshown:,} more ({added:,} added, {changed:,} changed, {removed:,} removed)"


def _counts(source: SourceChange) -> tuple[int, int, int]:
    counts = source["changed"]
    return counts["added"], counts["changed"], counts["removed"]


def times(as_of: Mapping[str, str | None], silent: Collection[str] = ()) -> Iterator[str]:
    """The times of listings, one line for all sources. `silent`: datasets that have a line of their
    own."""
    listed_at = [at for at in as_of.values() if at]
    if listed_at:
        first, last = second_of(min(listed_at)), second_of(max(listed_at))
        yield f"sources as of {first}" if first == last else f"sources as of {first} to {last}"
    # Those that were never listed, and those whose last listing failed
    unlisted = [dataset for dataset, at in as_of.items() if not at and dataset not in silent]
    if unlisted:
        yield f"no current listing: {', '.join(unlisted)}"


def second_of(instant: str) -> str:
    """A time of an answer, to the second."""
    return datetime.fromisoformat(instant).strftime("%Y-%m-%d %H:%M:%SZ")
