"""Reading an archive: every message in it once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jdbcstore.errors import ConfigurationError
from jdbcstore.pipeline.archive.layout import SCHEMA
from jdbcstore.pipeline.archive.manifest import Manifest
from jdbcstore.pipeline.folders import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_archive"]


def read_archive(spark: SparkSession, folder: str) -> DataFrame:
    """The messages of an archive, with the columns of `jdbcstore.pipeline.archive.layout.COLUMNS`.

    Args:
        folder: where `jdbcstore.pipeline.archive.archive` wrote to; a path or a URI.

    Raises:
        ConfigurationError: there is no archive, or it was written by a newer version.
    """
    manifest = Manifest(Folder(spark, folder))
    if not manifest.runs:
        raise ConfigurationError(f"{folder} is no archive: it has no manifest")
    return spark.read.schema(SCHEMA).parquet(*manifest.files)
