"""The example notebook runs from its first cell to its last, and shows what its text says."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from pyspark.sql import SparkSession

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "spark.ipynb"
#: What its cells say in the end: how many messages each time.
RESULTS = ["34", "1000", "1000"]
LAST = "spark.stop()"


def notebook() -> Any:
    """As it is in the documentation: without outputs."""
    read = nbformat.reads(NOTEBOOK.read_text("utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    assert not any(cell.get("outputs") for cell in read.cells), "commit the notebook without its outputs"
    return read


@pytest.mark.timeout(600)  # may be the one that starts Spark
def test_its_cells_run_in_the_session_that_is_there(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cells = [cell.source for cell in notebook().cells if cell.cell_type == "code"]
    assert cells.pop() == LAST
    names: dict[str, Any] = {}
    results = []
    for cell in cells:
        *statements, last = ast.parse(cell).body
        exec(compile(ast.Module(statements, []), str(NOTEBOOK), "exec"), names)
        if not isinstance(last, ast.Expr):
            exec(compile(ast.Module([last], []), str(NOTEBOOK), "exec"), names)
        elif (result := eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)) is not None:
            results.append(repr(result))
    assert results == RESULTS


@pytest.mark.exhaustive  # a Spark and a kernel of its own
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the notebook's libraries
def test_the_notebook_runs(tmp_path: Path) -> None:
    read = notebook()
    NotebookClient(read, timeout=200, resources={"metadata": {"path": str(tmp_path)}}).execute()
    results = [
        output["data"]["text/plain"]
        for cell in read.cells
        for output in cell.get("outputs", ())
        if output["output_type"] == "execute_result"
    ]
    assert results == RESULTS
