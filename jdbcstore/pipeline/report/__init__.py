"""What is in a store: an HTML page that needs nothing beside itself, and the figures in it as Parquet.

Read it in this order: `figures` (the tables), `stores` (what a SQL database is asked), `messages` (what only messages
tell, by Spark), `journals` (the same for KahaDB), `charts` and `page` (how it looks), `reporter` (all of it).
"""

from jdbcstore.pipeline.report.reporter import report

__all__ = ["report"]
