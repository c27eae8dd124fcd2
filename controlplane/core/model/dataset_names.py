"""How names of dataflows and datasets are written, as patterns that match a whole name."""

from __future__ import annotations

from typing import Final

DATAFLOW_NAME: Final = r"[a-z][a-z0-9_]{0,199}"
DATASET_NAME: Final = rf"{DATAFLOW_NAME}\.{DATAFLOW_NAME}"
