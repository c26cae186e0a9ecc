"""Jobs on stores, run by Spark: what ``jdbcstore pipeline`` does, as functions.

=========  =========================================================================================================
`report`   what is in a store, how old and how large it is, where it came from and who waits for it: HTML and Parquet
`archive`  messages to Parquet by destination and day, each once, however often it is run
`replay`   messages of an archive or of a KahaDB journal back into a store
`migrate`  everything of a store into another one, byte for byte, verified
=========  =========================================================================================================

Each takes a Spark session (`jdbcstore.pipeline.session.spark_session` starts a quiet one; any other will do) and a
`jdbcstore.pipeline.progress.Watch`, which shows how far it is and ends it at Ctrl-C.
"""
