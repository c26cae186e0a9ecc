"""The layers of packages are linted; here is what linting does not see."""

from __future__ import annotations

import graphlib

import grimp


def test_no_file_stands_in_a_circle() -> None:
    """Imports in functions and for types alone count, too."""
    graph = grimp.build_graph("jdbcstore")
    order = graphlib.TopologicalSorter({name: graph.find_modules_directly_imported_by(name) for name in graph.modules})
    order.prepare()  # raises CycleError, which tells the circle
