"""``jdbcstore pipeline report|archive|replay|migrate``: jobs on whole stores, run by Spark.

Spark, and whatever needs it, is imported when a job begins: who only asks for help waits for nothing.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import click

from jdbcstore.console.output import print_json, print_table
from jdbcstore.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jdbcstore.migration import Migrated, Moved
    from jdbcstore.pipeline.progress import Watch

__all__ = ["pipeline"]


@click.group()
def pipeline() -> None:
    """Report on, archive, replay and migrate whole stores, with Apache Spark: pip install 'jdbcstore[spark]'.

    \b
    A store is the URL of a SQL store, or a KahaDB directory where nothing has to be written:
        jdbcstore pipeline report postgresql://user:secret@db/activemq --output report
        jdbcstore pipeline archive postgresql://user:secret@db/activemq --output archive
        jdbcstore pipeline replay archive postgresql://user:secret@db/activemq --from 2026-11-01
        jdbcstore pipeline migrate /var/lib/activemq/kahadb postgresql://user:secret@db/activemq
    All of them run on this machine, or with --master on a cluster.
    """


def _job(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that all jobs have."""
    command = click.option("-q", "--quiet", is_flag=True, help="Show no progress.")(command)
    command = click.option(
        "--set",
        "settings",
        metavar="NAME=VALUE",
        multiple=True,
        help="A setting of Spark, such as spark.driver.memory=4g.",
    )(command)
    return click.option(
        "--master", metavar="URL", help="Where Spark runs: local[4], spark://HOST:7077, yarn, … [default: here]"
    )(command)


@contextmanager
def _spark(
    master: str | None, settings: tuple[str, ...], quiet: bool, *, is_short: bool = False
) -> Iterator[tuple[SparkSession, Watch]]:
    given = {}
    for one in settings:
        name, equals, value = one.partition("=")
        if not equals or not name.startswith("spark."):
            raise ConfigurationError(f"--set takes a setting of Spark as spark.NAME=VALUE, got {one!r}")
        given[name] = value
    from jdbcstore.pipeline.progress import Interrupted, Watch
    from jdbcstore.pipeline.session import spark_session

    with spark_session(master, settings=given, is_short=is_short) as spark:
        try:
            yield spark, Watch(spark, is_quiet=quiet)
        except Interrupted:
            raise click.Abort from None


@pipeline.command()
@click.argument("source")
@click.option("--output", required=True, type=click.Path(file_okay=False), help="The folder to write to.")
@click.option(
    "--dead-letter-queue", "dead", multiple=True, metavar="NAME", help="Where dead letters are. [default: ActiveMQ's]"
)
@_job
def report(
    source: str, output: str, dead: tuple[str, ...], master: str | None, settings: tuple[str, ...], quiet: bool
) -> None:
    """Write what is in the store SOURCE as an HTML page and Parquet tables. Nothing in the store is changed.

    Depth, bytes, ages, sizes, priorities, producers, redeliveries, expired messages, causes of dead letters, the lag of
    every durable subscription; of KahaDB also which destination keeps which journal file.

    \b
    Examples:
        jdbcstore pipeline report sqlite:///data/jdbcstore.db --output report
        jdbcstore pipeline report /var/lib/activemq/kahadb --output report --dead-letter-queue "DEAD.>"
    """
    from jdbcstore.config.inspection import is_journal

    is_journal(source)
    with _spark(master, settings, quiet, is_short=True) as (spark, watch):
        from jdbcstore.pipeline.destinations import DEAD_LETTER_QUEUES
        from jdbcstore.pipeline.report import report as make

        figures = make(spark, source, output, watch, dead or DEAD_LETTER_QUEUES)
    depth = figures.total("destinations", "depth")
    places = len(figures.rows("destinations"))
    click.echo(
        f"{depth} message{'s' * (depth != 1)} in {places} destination{'s' * (places != 1)}: {output}/report.html"
    )


@pipeline.command()
@click.argument("url")
@click.option(
    "--output", required=True, metavar="FOLDER", help="The archive: a path, or a URI such as s3a://… or hdfs://…"
)
@click.option(
    "--what",
    type=click.Choice(["all", "expired", "dead", "acknowledged"]),
    default="all",
    show_default=True,
    help="Expired messages, those in dead-letter queues, those of topics that nobody waits for any more.",
)
@click.option("--destination", "destinations", multiple=True, metavar="NAME", help="Only of these; ORDERS.> for many.")
@click.option("--selector", metavar="SELECTOR", help="Only those that match.")
@click.option(
    "--dead-letter-queue", "dead", multiple=True, metavar="NAME", help="Where dead letters are, for --what dead."
)
@click.option("--remove", is_flag=True, help="Remove from queues what is archived. No broker may be running.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@_job
def archive(
    url: str,
    output: str,
    what: str,
    destinations: tuple[str, ...],
    selector: str | None,
    dead: tuple[str, ...],
    remove: bool,
    dry_run: bool,
    as_json: bool,
    master: str | None,
    settings: tuple[str, ...],
    quiet: bool,
) -> None:
    """Write messages of the store at URL, or of a directory, to Parquet files, by destination and day. Each message is
    archived once: run it again for what is new, also after a crash.

    \b
    Examples:
        jdbcstore pipeline archive postgresql://user:secret@db/activemq --output /archive
        jdbcstore pipeline archive sqlite:///data/jdbcstore.db --output /archive --what dead --remove
    """
    from jdbcstore.config.inspection import check_url
    from jdbcstore.pipeline.directories import has_journal

    if not has_journal(url):
        check_url(url, "who removes messages" if remove else "")
    with _spark(master, settings, quiet) as (spark, watch):
        from jdbcstore.pipeline.archive import archive as run
        from jdbcstore.pipeline.archive.selection import Selection
        from jdbcstore.pipeline.destinations import DEAD_LETTER_QUEUES

        selection = Selection(cast(Any, what), destinations, dead or DEAD_LETTER_QUEUES, selector)
        done = run(spark, url, output, selection, watch, is_dry=dry_run, removes=remove)
    if as_json:
        print_json(asdict(done))
        return
    if dry_run:
        print_table(("DESTINATION", "MESSAGES"), done.destinations.items(), empty="nothing new")
        click.echo(f"{done.messages} messages of {done.bytes} bytes would be archived")
    elif done.run is None:
        click.echo("nothing new")
    else:
        count = len(done.destinations)
        click.echo(f"{done.messages} messages of {count} destinations archived in {done.files} files: run {done.run}")
    if done.cleared_up:
        click.echo(f"what interrupted runs had left is removed: {', '.join(done.cleared_up)}")
    if remove and not dry_run:
        click.echo(f"{done.removed} messages removed")
        if done.kept_of_topics:
            click.echo(f"{done.kept_of_topics} of topics stay: their broker removes them when nobody waits for them")


@pipeline.command()
@click.argument("source")
@click.argument("target")
@click.option("--skip-damage", is_flag=True, help="Of a KahaDB directory: leave out what cannot be read.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@_job
def migrate(
    source: str,
    target: str,
    skip_damage: bool,
    dry_run: bool,
    as_json: bool,
    master: str | None,
    settings: tuple[str, ...],
    quiet: bool,
) -> None:
    """Bring everything of the store SOURCE into the empty store TARGET, and compare the two afterwards.

    SOURCE is the URL of a SQL store or a KahaDB directory, TARGET the URL of a SQL store, or kahadb:DIRECTORY, which
    has one writer, so Spark does not help there. No broker may be running on them. Messages keep their bytes, their
    order and, between SQL stores, their ids; durable subscriptions keep their places. After a crash run it again: it
    goes on where it stopped, and until it is done no broker gets TARGET.

    \b
    Examples:
        jdbcstore pipeline migrate sqlite:///data/jdbcstore.db postgresql://user:secret@db/activemq
        jdbcstore pipeline migrate /var/lib/activemq/kahadb postgresql://user:secret@db/activemq --dry-run
    """
    from jdbcstore.config.inspection import is_journal
    from jdbcstore.migration.migration import check_target

    is_journal(source)
    check_target(target)
    with _spark(master, settings, quiet) as (spark, watch):
        from jdbcstore.pipeline.migrate import migrate as run

        done = run(spark, source, target, watch, is_dry=dry_run, skips_damage=skip_damage)
    others = _others(done)
    if as_json:
        print_json(_reported(done) | {"others": others})
        return
    titles = ("DESTINATION", "MESSAGES", "BYTES", "CONTENT")[: 3 if dry_run else 4]
    rows = [(name, *found.values()) for name, found in _reported(done)["destinations"].items()]
    print_table(titles, rows, empty="the source has no messages")
    for name, count in others.items():
        if count:
            click.echo(f"{count} {name}")
    if dry_run:
        click.echo(f"{done.messages} messages would be migrated to {done.target}")
    else:
        again = f", {done.messages - done.copied} of them by an earlier run" if done.is_resumed else ""
        click.echo(f"{done.messages} messages migrated to {done.target}{again}; both stores are alike")


def _others(done: Migrated) -> dict[str, int]:
    """What came beside the messages, as this command tells it."""
    if not done.target.startswith("kahadb:"):
        return done.others
    return {
        "durable subscriptions": len(done.subscriptions),
        "prepared transactions": len(done.transactions),
        "scheduled messages": done.jobs,
        "damaged messages left out": len(done.damages) + done.damages_unlisted,
    }


def _reported(done: Migrated) -> dict[str, Any]:
    return {
        "source": done.source,
        "target": done.target,
        "is_resumed": done.is_resumed,
        "messages": done.messages,
        "bytes": done.bytes,
        "skipped": 0 if done.is_dry else done.messages - done.copied,
        "destinations": {name: _moved(one) for name, one in done.destinations.items()},
    }


def _moved(moved: Moved) -> dict[str, int | str]:
    found: dict[str, int | str] = {"messages": moved.messages, "bytes": moved.bytes or 0}
    return found | ({"content": moved.content} if moved.content else {})


_TIMES = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"])


@pipeline.command()
@click.argument("source")
@click.argument("url")
@click.option("--from", "since", type=_TIMES, metavar="TIME", help="Only what was sent at this time (UTC) or later.")
@click.option("--to", "until", type=_TIMES, metavar="TIME", help="Only what was sent before.")
@click.option("--selector", metavar="SELECTOR", help="Only those that match.")
@click.option("--destination", metavar="NAME", help="Send all of them there. [default: where they were sent to]")
@click.option("--rate", type=float, metavar="N", help="So many messages per second. [default: as fast as it goes]")
@click.option("--message-ids", type=click.Choice(["keep", "new"]), default="keep", show_default=True)
@click.option("--expiration", type=click.Choice(["keep", "never"]), default="keep", show_default=True)
@click.option("--live", is_flag=True, help="Of a KahaDB directory: only what its broker would still have.")
@click.option("--job-id", metavar="NAME", help="Of a replay that stopped: go on with it.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@_job
def replay(
    source: str,
    url: str,
    since: datetime | None,
    until: datetime | None,
    selector: str | None,
    destination: str | None,
    rate: float | None,
    message_ids: str,
    expiration: str,
    live: bool,
    job_id: str | None,
    dry_run: bool,
    as_json: bool,
    master: str | None,
    settings: tuple[str, ...],
    quiet: bool,
) -> None:
    """Bring messages of SOURCE, an archive or a KahaDB directory, back into the store at URL.

    They come in the order in which they were sent. A broker may be running on the store: it delivers them.

    \b
    Examples:
        jdbcstore pipeline replay /archive sqlite:///data/jdbcstore.db --selector "customer = 7" --rate 100
        jdbcstore pipeline replay /backup/kahadb postgresql://user:secret@db/activemq --from 2026-11-01 --to 2026-11-02
    """
    from jdbcstore.config.inspection import check_url

    check_url(url, "" if dry_run else "a replay")
    with _spark(master, settings, quiet) as (spark, watch):
        from jdbcstore.pipeline.replay import Replay
        from jdbcstore.pipeline.replay import replay as run

        how = Replay(
            live=live,
            since=None if since is None else since.replace(tzinfo=UTC),
            until=None if until is None else until.replace(tzinfo=UTC),
            selector=selector,
            destination=destination,
            rate=rate,
            keeps_ids=message_ids == "keep",
            forgets_expiration=expiration == "never",
            job_id=job_id,
        )
        if not dry_run and not as_json:
            how = dataclasses.replace(how, job_id=job_id or f"replay-{secrets.token_hex(6)}")
            watch.showing.say(f"if this stops, go on with --job-id {how.job_id}")
        done = run(spark, source, url, how, watch, is_dry=dry_run)
    if as_json:
        print_json(asdict(done))
    elif dry_run:
        print_table(("DESTINATION", "MESSAGES"), done.destinations.items(), empty="no message is chosen")
        click.echo(f"{done.messages} messages would be replayed")
    else:
        again = f", {done.skipped} of them by an earlier run" if done.skipped else ""
        click.echo(f"{done.messages} messages replayed{again} in {done.seconds:.1f} s")
