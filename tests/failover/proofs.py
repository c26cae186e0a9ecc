"""The chaos harness can fail: for each protection of a store on a cluster, the fault that does harm without it.

Each proof switches one protection off, does one fault, and looks whether the checker tells of the rule that the
protection is for. Whether the harm is done is a matter of chance now and then, so each has some tries. Exit code 1 says
that the harm of one of them was not seen.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from tests.failover.chaos import Outcome, run
from tests.failover.nemesis import Fault

__all__ = ["PROOFS", "Proof", "prove"]

#: Consumers without the protection may never have everything.
_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Proof:
    """One protection, and the harm that is done without it.

    Args:
        database: a key of `tests.failover.cluster.DATABASES`.
        fault: does the harm.
        without: the protections that are switched off.
        rule: the letter of the rule that is broken then.
        lease_ms: of the brokers.
    """

    database: str
    fault: Fault
    without: tuple[str, ...]
    rule: str
    lease_ms: int = 2000


_LATE = Fault("pause_before_commit", 0.5, True, 1.0)
_LATE_ELSEWHERE = Fault("late_on_another_member", 0.5, True, 1.0)
#: By what is off, and where.
PROOFS: dict[str, Proof] = {
    # Waits of commits end with their sessions, and the server that alone has them dies. A lease during which a broker
    # on a busy machine finds its lost commits.
    "confirmation": Proof("patroni", Fault("cancel_commits", 0.5, True, 1.0), ("confirmation",), "a", lease_ms=20_000),
    # A lease that outlives the failover: the master is one on both timelines.
    "history": Proof("patroni", Fault("kill_primary", 0.5, True, 3.0), ("history",), "h", lease_ms=30_000),
    "terms": Proof("patroni-async", Fault("lose_term", 0.5, True, 1.0), ("terms", "history"), "b"),
    "fence": Proof("patroni", _LATE, ("fence",), "b"),
    "fence-galera": Proof("galera", _LATE_ELSEWHERE, ("fence",), "b"),
    "fence-group": Proof("group", _LATE, ("fence",), "b"),
    "certification": Proof("galera", _LATE_ELSEWHERE, ("certification",), "b"),
}


def prove(
    proof: Proof, folder: Path, *, seed: int = 7, tries: int = 4, tell: Callable[[str], object] = print
) -> Outcome | None:
    """Try until the harm is seen.

    Args:
        proof: what to show.
        folder: an empty one.
        seed: of the first try.
        tries: how many at most.
        tell: called with each line about what is going on.

    Returns:
        The run in which it was seen, None if in none.
    """
    for number in range(seed, seed + tries):
        own = folder / str(number)
        own.mkdir()
        outcome = run(
            proof.database,
            [proof.fault],
            own,
            seed=number,
            lease_ms=proof.lease_ms,
            is_fenced="fence" not in proof.without,
            without=[name for name in proof.without if name != "fence"],
            patience_s=_PATIENCE_S,
            tell=tell,
        )
        outcome.history.save(own / "history.jsonl")
        if proof.rule in {violation.rule for violation in outcome.violations}:
            return outcome
        tell(f"rule {proof.rule} was kept\n{outcome}")
    return None


@click.command(help=__doc__)
@click.argument("names", nargs=-1, type=click.Choice(list(PROOFS)))
@click.option("--tries", default=4, show_default=True, help="How often each is tried.")
def main(names: tuple[str, ...], tries: int) -> None:
    """All of them, or those that are named."""
    unseen: list[str] = []
    for name in names or PROOFS:
        proof = PROOFS[name]
        off = " and ".join(proof.without)
        click.echo(f"\n=== {name}: {proof.database}, {proof.fault.kind}, without {off}")
        outcome = prove(proof, Path(tempfile.mkdtemp(prefix=f"jdbcstore-proof-{name}-")), tries=tries, tell=click.echo)
        if outcome is None:
            unseen.append(name)
            continue
        found = next(violation for violation in outcome.violations if violation.rule == proof.rule)
        click.echo(f"seen: rule {found.rule} is broken, {found.text}")
    click.echo(f"\nnot seen: {', '.join(unseen) or 'none'}")
    sys.exit(1 if unseen else 0)


if __name__ == "__main__":
    main()
