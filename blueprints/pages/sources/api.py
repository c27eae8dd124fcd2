"""Scores from an HTTP API that tells its days with a version each, and the scores of one day as JSON."""

import json
from urllib.request import urlopen


def list(context):
    """One object for each day; it is read again when its version moves."""
    for day in _ask(context, "/days"):
        yield {"name": day["day"], "version": day["version"]}


def read(context, object):
    """The rows of one day."""
    for score in _ask(context, f"/days/{object.name}"):
        yield {"day": _date(object.name), "team": score["team"], "points": score["points"]}


def _ask(context, path):
    with urlopen(context.params["url"] + path, timeout=30) as answer:
        return json.load(answer)


def _date(text):
    from datetime import date

    return date.fromisoformat(text)
