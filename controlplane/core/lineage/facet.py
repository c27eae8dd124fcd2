"""OpenLineage's column-lineage facet of one component
(https://openlineage.io/docs/spec/facets/dataset-facets/)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from controlplane.core.lineage.of_node import Edge, NodeLineage
from controlplane.core.model.answers.lineage import ColumnLineageFacet, FacetInput
from dataplane.contract.transform_lineage import transformation

PRODUCER: Final = "https://pypi.org/project/headgate"
SCHEMA: Final = "https://openlineage.io/spec/facets/1-2-0/ColumnLineageDatasetFacet.json#/$defs/ColumnLineageDatasetFacet"


def facet(lineage: NodeLineage, namespace: str) -> ColumnLineageFacet:
    """`namespace`: of the datasets that it reads."""
    return {
        "_producer": PRODUCER,
        "_schemaURL": SCHEMA,
        "fields": {
            name: {"inputFields": _inputs(edges, namespace)}
            for name, edges in lineage.fields.items()
        },
        "dataset": _inputs(lineage.rows, namespace),
    }


def _inputs(edges: Iterable[Edge], namespace: str) -> list[FacetInput]:
    return [
        {
            "namespace": namespace,
            "name": edge.dataset,
            "field": edge.column,
            "transformations": [transformation(step) for step in edge.steps],
        }
        for edge in edges
    ]
