"""Run brokers under load, break what can be broken, and check that nothing was lost and nobody wrote who must not.

Each round has a database and brokers of its own and a seed: the one given, then the next. A round with a violation can
be run again by its seed; times differ, the order and the size of the faults do not. Exit code 1 says that there was a
violation.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from tests.failover.checker import Violation, check
from tests.failover.clients import Client, Clients, Consumer, Producer, Transactor
from tests.failover.cluster import DATABASES, PATIENCE_S, Cluster, Failed
from tests.failover.history import History
from tests.failover.nemesis import Fault, Nemesis, kinds_for, plan
from tests.failover.report import excerpt, summary
from tests.failover.users import Users
from tests.servers.server import ServerFailed

__all__ = ["Outcome", "run"]

A, B, C = "/queue/CHAOS.A", "/queue/CHAOS.B", "/queue/CHAOS.C"
#: Who sends to where.
PRODUCERS = {"p01": [A], "p02": [A, B], "p03": [B], "p04": [C]}
TRANSACTORS = {"t01": [A, C], "t02": [B, C]}
CONSUMERS = {"c01": A, "c02": A, "c03": B, "c04": B, "c05": C, "c06": C}
#: Violations that are told at length.
_TOLD = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a run."""

    history: History
    violations: list[Violation]

    def __str__(self) -> str:
        """Figures, and what was violated, with the history that belongs to it."""
        parts = [summary(self.history)]
        for violation in self.violations[:_TOLD]:
            parts += ["", f"VIOLATION of rule {violation.rule}: {violation.text}", *excerpt(self.history, violation)]
        if self.violations:
            parts += ["", f"{len(self.violations)} violations"]
        return "\n".join(parts)


def run(
    database: str,
    faults: Sequence[Fault],
    folder: Path,
    *,
    seed: int = 0,
    brokers: int = 2,
    lease_ms: int = 2000,
    is_fenced: bool = True,
    is_anonymous: bool = False,
    is_tls: bool = False,
    has_users: bool = False,
    patience_s: float = PATIENCE_S,
    without: Sequence[str] = (),
    tell: Callable[[str], object] = print,
) -> Outcome:
    """One run.

    Args:
        database: a key of `DATABASES`.
        faults: what to do, in this order.
        folder: an empty one.
        seed: what clients decide by.
        brokers: how many.
        lease_ms: their lease.
        is_fenced: False turns fencing off, to see the checker find it.
        is_anonymous: producers do not say who they are; what they send again may be stored again.
        is_tls: everybody connects with TLS.
        has_users: whether clients have to log in, and may do only what they have to.
        patience_s: how long to wait in the end for the store to be empty.
        without: protections of brokers that are switched off, to see the checker find it.
        tell: called with each line about what is going on.
    """
    failure: list[Violation] = []
    users = Users([*PRODUCERS, *TRANSACTORS], CONSUMERS) if has_users else None
    cluster = Cluster(
        database,
        folder,
        brokers=brokers,
        lease_ms=lease_ms,
        is_fenced=is_fenced,
        is_tls=is_tls,
        users=users,
        without=without,
    )
    with cluster:
        cluster.history.deduplicates = not is_anonymous
        everybody = clients(cluster, seed, is_anonymous=is_anonymous)
        for client in everybody:
            client.credentials = {} if users is None else users.headers(client.name)
        try:
            live(cluster, everybody, faults, patience_s, tell)
        except (Failed, ServerFailed) as error:
            failure.append(Violation("e", str(error), time.monotonic()))
            tell(f"the round ends here: {error}")  # what follows may fail, too
            for broker in cluster.brokers:
                if broker.is_wanted:
                    broker.kill()
        history = cluster.conclude()
    found = check(history)
    if failure:  # nobody has waited for consumers then
        found = [violation for violation in found if violation.rule != "s"]
    return Outcome(history, failure + found)


def live(
    cluster: Cluster,
    everybody: Sequence[Client],
    faults: Sequence[Fault],
    patience_s: float,
    tell: Callable[[str], object],
) -> None:
    """From the start of brokers and clients to their clean end with an empty store."""
    for broker in cluster.brokers:
        broker.launch()
    with Clients(everybody) as at_work:
        nemesis = Nemesis(cluster, at_work, tell)
        nemesis.wait_for_service()
        for fault in faults:
            nemesis.do(fault)
        at_work.finish()
        cluster.wait_for("producers have all their receipts", lambda: at_work.has_finished)
        cluster.wait_for("the store is empty", lambda: cluster.stored() == 0, patience_s)
        cluster.wait_for("consumers have all their receipts", lambda: at_work.unanswered == 0)
    for broker in cluster.brokers:
        broker.stop()
    cluster.require_sound_journal()


def clients(cluster: Cluster, seed: int, *, is_anonymous: bool) -> list[Client]:
    """Everybody who sends and receives."""
    chance = random.Random(seed)
    brokers = {broker.name: broker.address for broker in cluster.brokers}
    common = [
        (name, brokers, cluster.history, random.Random(chance.random()))
        for name in (*PRODUCERS, *TRANSACTORS, *CONSUMERS)
    ]
    made: list[Client] = []
    for arguments in common:
        name = arguments[0]
        if name in PRODUCERS:
            made.append(Producer(*arguments, PRODUCERS[name], is_anonymous=is_anonymous))
        elif name in TRANSACTORS:
            made.append(Transactor(*arguments, TRANSACTORS[name], is_anonymous=is_anonymous))
        else:
            made.append(Consumer(*arguments, CONSUMERS[name]))
    for client in made:
        client.tls = cluster.tls
    return made


@click.command(help=__doc__)
@click.option("--database", type=click.Choice(list(DATABASES)), default="postgresql", show_default=True)
@click.option("--minutes", default=2.0, show_default=True, help="For about how long, all rounds together.")
@click.option("--round-minutes", default=2.0, show_default=True, help="About how long a round is.")
@click.option("--seed", default=1, show_default=True, help="Of the first round.")
@click.option("--brokers", type=click.IntRange(1), default=2, show_default=True)
@click.option("--lease-ms", default=2000, show_default=True)
@click.option("--kind", "kinds", multiple=True, help="Only faults of this kind; may be repeated.")
@click.option("--anonymous", is_flag=True, help="Producers do not number their messages: some are stored again.")
@click.option("--tls", is_flag=True, help="Everybody connects with TLS.")
@click.option("--users", is_flag=True, help="Clients have to log in, and may do only what they have to.")
@click.option(
    "--without", multiple=True, help="Switch a protection off: confirmation, terms, history, fence, certification."
)
@click.option("--folder", type=click.Path(path_type=Path), help="For histories and logs. [default: a new one]")
def main(
    database: str,
    minutes: float,
    round_minutes: float,
    seed: int,
    brokers: int,
    lease_ms: int,
    kinds: tuple[str, ...],
    anonymous: bool,
    tls: bool,
    users: bool,
    without: tuple[str, ...],
    folder: Path | None,
) -> None:
    """Rounds until the time is over."""
    possible = kinds_for(database)
    if unknown := set(kinds) - set(possible):
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: {database} can have {', '.join(possible)}")
    folder = folder or Path(tempfile.mkdtemp(prefix="jdbcstore-chaos-"))
    folder.mkdir(exist_ok=True)
    ends = time.monotonic() + minutes * 60
    failed: list[int] = []
    rounds = 0
    while not rounds or ends - time.monotonic() > 30:
        seconds = min(round_minutes * 60, max(ends - time.monotonic(), 1.0))
        number = seed + rounds
        faults = plan(number, seconds, kinds or possible)
        click.echo(f"\n=== {database}, seed {number}, {brokers} brokers, {len(faults)} faults")
        for place, fault in enumerate(faults, 1):
            click.echo(f"{place:3} {fault}")
        own = folder / f"{database}-{number}"
        own.mkdir()
        outcome = run(
            database,
            faults,
            own,
            seed=number,
            brokers=brokers,
            lease_ms=lease_ms,
            is_anonymous=anonymous,
            is_tls=tls,
            has_users=users,
            is_fenced="fence" not in without,
            without=[name for name in without if name != "fence"],
            patience_s=10 if without else PATIENCE_S,
            tell=click.echo,
        )
        outcome.history.save(own / "history.jsonl")
        click.echo(str(outcome))
        failed += [number] if outcome.violations else []
        rounds += 1
    click.echo(f"\n{rounds} rounds on {database}, violations with seeds: {failed or 'none'}; histories are in {folder}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
