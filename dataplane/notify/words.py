"""A message as lines for people."""

from __future__ import annotations

from dataplane.contract.jobs import AlertItem, AlertMessage

SHOWN = 20


def lines(message: AlertMessage) -> list[str]:
    """One for each of the first items."""
    items = message["items"]
    found = [_line(item) for item in items[:SHOWN]]
    if len(items) > SHOWN:
        found.append(f"... and {len(items) - SHOWN} more: headgate status {message['dataflow']}")
    return found


def _line(item: AlertItem) -> str:
    text = f": {item['text']}" if item["text"] else ""
    return f"{item['occasion']}: {item['dataset']} since {item['since']}{text}"
