"""No module imports itself by way of others: where a plain module chooses its variant, a chooser
stands above both."""

from __future__ import annotations

from graphlib import TopologicalSorter

import grimp
import pytest

pytestmark = pytest.mark.unit


def test_modules_do_not_import_each_other() -> None:
    """The error names the circle. Imports within functions and for type checkers count."""
    graph = grimp.build_graph("controlplane", "dataplane", "headgate", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 1_000
    TopologicalSorter(imports).prepare()
