"""JSON Schema (2020-12) of the blueprint language, for editors; made from the tables that the parser uses.

Does not belong here: anything that the tables do not say.
"""

from __future__ import annotations

from controlplane.core.blueprint.kinds import JsonSchema
from controlplane.core.blueprint.language import BLUEPRINT


def json_schema() -> JsonSchema:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:headgate:schema:blueprint-v1",
        "title": "Headgate blueprint",
        **BLUEPRINT.schema(),
    }
