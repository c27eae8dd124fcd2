"""The page of a dataset's profile, whose first part stands on the dataset's page, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from starlette.routing import Route
from typing_extensions import TypedDict

from controlplane.core.errors import NotFound
from controlplane.core.model.answers.profiles import (
    ColumnHistory,
    Histogram,
    ProfileAnswer,
    ProfileHistoryAnswer,
    ProfilePoint,
)
from controlplane.operations.inspect import audit, dataset_profiles
from controlplane.ui.page import Page, both, dataset_of
from controlplane.ui.page_request import PageRequest
from controlplane.ui.session_rights import may

WIDTH, HEIGHT = 120, 28  # of a drawing


class ProfilePage(TypedDict):
    """`profile`: None where nothing is committed yet."""

    dataset: str
    profile: ProfileAnswer | None
    history: ProfileHistoryAnswer | None


class Bar(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    title: str


class Dot(NamedTuple):
    x: float
    y: float
    point: ProfilePoint


class Spark(NamedTuple):
    """A line over generations, and the points where the column moved."""

    path: str
    moves: list[Dot]


def _profile(page_request: PageRequest) -> ProfilePage:
    name, with_values = dataset_of(page_request), may(page_request.token, "data")
    if with_values:
        audit.note_read(page_request.context, "profile", page_request.branch, name, {"page": True})
    try:
        latest = dataset_profiles.profile(
            page_request.context, page_request.branch, name, with_values=with_values
        )
    except NotFound:
        return {"dataset": name, "profile": None, "history": None}
    over = dataset_profiles.history(
        page_request.context, page_request.branch, name, with_values=with_values
    )
    return {"dataset": name, "profile": latest, "history": over}


def _shown(page_request: PageRequest, page: ProfilePage) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return drawn(page)


def drawn(page: ProfilePage) -> Mapping[str, Any]:
    """Histograms and lines of the columns, by name."""
    columns = page["profile"]["columns"] if page["profile"] else []
    bars = {
        c["name"]: histogram(c["values"]["histogram"]) if "values" in c else [] for c in columns
    }
    over = page["history"]["columns"] if page["history"] else []
    return {
        "bars": bars,
        "sparks": {column["name"]: spark(column) for column in over},
        "width": WIDTH,
        "height": HEIGHT,
    }


def histogram(bins: Histogram | None) -> list[Bar]:
    if bins is None:
        return []
    most, step = max(bins["counts"]) or 1, WIDTH / len(bins["counts"])
    bars: list[Bar] = []
    for i, count in enumerate(bins["counts"]):
        height = round(count / most * HEIGHT, 1)
        label = f"{bins['edges'][i]} to {bins['edges'][i + 1]}: {count} of the sample"
        bars.append(Bar(round(i * step, 1), HEIGHT - height, round(step - 1, 1), height, label))
    return bars


def spark(column: ColumnHistory) -> Spark | None:
    """A line of means where they are present, else of shares of NULL. None for a single
    generation."""
    points = column["points"]
    means = [point["mean"] for point in points]
    values = (
        means
        if any(mean is not None for mean in means)
        else [point["null_share"] for point in points]
    )
    if len(points) < 2 or all(value is None for value in values):
        return None
    dots = list(_dots(points, values))
    path = "M" + " L".join(f"{dot.x} {dot.y}" for dot in dots)
    return Spark(path, [dot for dot in dots if dot.point["moved"]])


def _dots(points: Sequence[ProfilePoint], values: Sequence[float | None]) -> list[Dot]:
    present = [value for value in values if value is not None]
    low, span = min(present), (max(present) - min(present)) or 1.0
    step = (WIDTH - 8) / max(1, len(points) - 1)
    dots: list[Dot] = []
    for i, (point, value) in enumerate(zip(points, values, strict=True)):
        if value is not None:
            y = HEIGHT - 4 - (value - low) / span * (HEIGHT - 8)
            dots.append(Dot(round(4 + i * step, 1), round(y, 1), point))
    return dots


PROFILE = Page(
    "profile.html",
    _profile,
    _shown,
    lambda page_request: f"headgate profile {dataset_of(page_request)}",
)

ROUTES: list[Route] = [*both("/datasets/{name}/profile", PROFILE)]
