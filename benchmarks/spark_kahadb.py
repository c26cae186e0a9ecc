"""How fast Spark reads a KahaDB journal, against one Python process without Spark: records, payloads, live messages.

The journal is that of `benchmarks.kahadb_journal` with 64 records in a batch: 1 KiB text messages, of which one in five
is left. Rounds alternate, so that what disturbs the machine disturbs all; the best round counts. Spark's session is
warm, its results go to the sink ``noop``. At the end: the memory that the merge takes, by operations and by live
messages.

    python -m benchmarks.spark_kahadb [--mb 300] [--rounds 3] [--master 'local[2]'] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.kahadb_journal import write
from jdbcstore.spark import register
from jdbcstore.spark.columns import arrow_schema
from jdbcstore.spark.kahadb import live_messages
from jdbcstore.spark.kahadb.columns import OPERATIONS, schema_of
from jdbcstore.spark.kahadb.files import JournalDirectory
from jdbcstore.spark.kahadb.live import live_table, state_of
from jdbcstore.spark.kahadb.options import KahaDBOptions
from jdbcstore.spark.kahadb.records import parts_of, read_part
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.replay import replay

ENVELOPE = "topic,offset,messageId,subscribers"
FOUR = "file,offset,command,destination"


def alone(folder: Path) -> dict[str, Callable[[], object]]:
    """What one process does."""

    def live() -> None:
        journal = Journal(folder)
        for stored in replay(journal).destinations.values():
            for message in stored.messages():
                journal.message(message.location)

    return {
        "one process: records": lambda: deque(Journal(folder).records(), maxlen=0),
        "one process: replayed": lambda: replay(Journal(folder)),
        "one process: live messages, read": live,
    }


def with_spark(spark: SparkSession, folder: Path) -> dict[str, Callable[[], object]]:
    """The same by Spark."""

    def view(**options: str) -> DataFrame:
        return spark.read.format("kahadb").options(**options).load(str(folder))

    def drained(frame: Callable[[], DataFrame]) -> Callable[[], object]:
        return lambda: frame().write.format("noop").mode("overwrite").save()

    return {
        "Spark: records, a few columns": drained(
            lambda: view(view="records", columns="file,offset,command,destination")
        ),
        "Spark: records, without payload": drained(lambda: view(view="records")),
        "Spark: records, with payload": drained(lambda: view(view="records", payload="true")),
        "Spark: view=messages, envelopes": drained(lambda: view(columns=f"{ENVELOPE},_corrupt")),
        "Spark: view=messages, bytes": drained(lambda: view(columns=f"{ENVELOPE},message")),
        "Spark: view=messages, decoded": drained(view),
        "Spark: live_messages, bytes": drained(
            lambda: live_messages(spark, str(folder), columns=f"{ENVELOPE},message")
        ),
        "Spark: live_messages, decoded": drained(lambda: live_messages(spark, str(folder))),
    }


def merge(folder: Path) -> dict[str, float]:
    """What the merge takes in this process: MiB, seconds, operations and live messages."""
    options = KahaDBOptions.of({"path": str(folder), "view": "records", "columns": ",".join(OPERATIONS)})
    schema = schema_of(options)
    directory = JournalDirectory(str(folder))
    batches = [batch for part in parts_of(directory, 1 << 40) for batch in read_part(part, options, schema)]
    assert batches[0].schema.equals(arrow_schema(schema))
    before, start = _peak_mib(), time.process_time()
    state = state_of(batches, directory, None)
    seconds, replayed = time.process_time() - start, _peak_mib()
    table = live_table(state, KahaDBOptions.of({"path": str(folder)}), takes_corrupt=True)
    return {
        "operations": sum(batch.num_rows for batch in batches),
        "live messages": table.num_rows,
        "seconds": seconds,
        "MiB of the state": replayed - before,
        "MiB with the list": _peak_mib() - before,
    }


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=300, help="size of the journal")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--merge", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.merge is not None:
        print(json.dumps(merge(arguments.merge)))
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory(prefix="jdbcstore-benchmark-") as name:
        folder = Path(name)
        write(folder, 64, arguments.mb * 1_000_000)
        size = sum(path.stat().st_size for path in folder.iterdir())
        spark = SparkSession.builder.master(arguments.master).config("spark.ui.enabled", "false").getOrCreate()
        register(spark)
        steps = alone(folder) | with_spark(spark, folder)
        best = dict.fromkeys(steps, float("inf"))
        for _ in range(arguments.rounds):
            for what, step in steps.items():
                start = time.perf_counter()
                step()
                best[what] = min(best[what], time.perf_counter() - start)
        spark.stop()
        command = [sys.executable, "-m", "benchmarks.spark_kahadb", "--merge", name]
        merged = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    rates = {what: round(size / 1e6 / seconds) for what, seconds in best.items()}
    if arguments.json:
        print(json.dumps({"MB/s": rates, "merge": merged}))
        return
    print(f"{size / 1e6:.0f} MB, {merged['operations']:,} records, {merged['live messages']:,} live messages; MB/s")
    for what, rate in rates.items():
        print(f"  {what:<36}{rate:>8,}")
    print("merge")
    for what, value in merged.items():
        print(f"  {what:<36}{value:>10,.1f}")


if __name__ == "__main__":
    main()
