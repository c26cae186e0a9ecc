"""Messages as Parquet files, each once, however often it is archived and whatever is interrupted.

Read it in this order: `manifest` (what counts as archived), `layout` (how the files lie and what is in them),
`selection` (which messages), `archiver` (all of it), `reader` (what others do with an archive).
"""

from jdbcstore.pipeline.archive.archiver import Archived, archive
from jdbcstore.pipeline.archive.reader import read_archive

__all__ = ["Archived", "archive", "read_archive"]
