"""A message as lines for people."""

from __future__ import annotations

from dataplane.contract.jobs import AlertItem, AlertMessage

SHOWN = 20


def lines(message: AlertMessage) -> list[str]:
    """One for each of the first items."""
    items = message["items"]
    texts = [_line(item) for item in items[:SHOWN]]
    if len(items) > SHOWN:
        texts.append(f"... and {len(items) - SHOWN} more: headgate status {message['dataflow']}")
    return texts


def _line(item: AlertItem) -> str:
    text = f": {item['text']}" if item["text"] else ""
    return f"{item['occasion']}: {item['dataset']} since {item['since']}{text}"
