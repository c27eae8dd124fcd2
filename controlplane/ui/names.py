"""Patterns of names in addresses and forms."""

from __future__ import annotations

import re

from controlplane.core.model.branches import NAME
from controlplane.core.model.dataset_names import DATAFLOW_NAME, DATASET_NAME

FLOW = re.compile(DATAFLOW_NAME)
DATASET = re.compile(DATASET_NAME)
BRANCH = re.compile(NAME)
ATTEMPT = re.compile(r"[0-9a-f]{32}")


def number_of(text: str) -> int | None:
    """A generation or revision that an address or a form names; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 16 else None
