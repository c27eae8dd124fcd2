"""Wrong blueprints as users write them: all that is wrong is told, at the wrong word, with a
remedy."""

from __future__ import annotations

import pytest

from controlplane.core.errors import Problem
from controlplane.operations.desired.blueprints import SentBlueprint, validate
from tests.unit.blueprint.texts import marked
from tests.unit.blueprint.wrong import CASES, Wrong

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_what_is_told(case: Wrong) -> None:
    sources, places = [], []
    for file, text in case.texts.items():
        plain, marks = marked(text)
        sources.append((file, plain))
        places += [(file, line, column) for line, column in marks]
    found = _problems(sources)
    assert [(p.file, p.line, p.column, p.code) for p in found] == [
        (*place, told.code) for place, told in zip(sorted(places), case.told, strict=True)
    ], "\n".join(map(str, found))
    for problem, told in zip(found, case.told, strict=True):
        assert told.message in problem.message, str(problem)
        assert told.hint in problem.hint, str(problem)


def _problems(texts: list[tuple[str, str]]) -> tuple[Problem, ...]:
    """Of all blueprints among the files; the others are sent along."""
    files = {name: text for name, text in texts if name.endswith(".py")}
    sources = [SentBlueprint(name, text, files) for name, text in texts if name not in files]
    return validate(sources).problems
