"""Blueprints as `validate --expand` shows them: with defaults, templates, connections, schemas and
`cdc` written out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from controlplane.cli.session import Session
from controlplane.core.blueprint import written_out


def expansions(session: Session, files: Sequence[Path]) -> dict[str, str]:
    """The expanded blueprints, by the names that were typed. If there are several files, each is a
    document of one YAML stream."""
    texts = {str(text.path): written_out(text.text, file=text.name) for text in session.load(files)}
    if len(texts) == 1:
        return texts
    return {name: f"--- # {name}\n{text}" for name, text in texts.items()}
