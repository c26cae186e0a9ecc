"""Whatever a file says, reading it ends soon, raises nothing, and errors have lines of the file."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jdbcstore.config.activemq_xml.reader import read_activemq_xml
from jdbcstore.config.activemq_xml.vocabulary import KINDS
from tests.examples import examples
from tests.unit.config.written import STORE, document

RICH = document(
    """<systemUsage><systemUsage><memoryUsage><memoryUsage limit="64 mb"/></memoryUsage></systemUsage></systemUsage>
<destinationPolicy><policyMap><policyEntries><policyEntry queue=">" queuePrefetch="10" memoryLimit="5mb">
<deadLetterStrategy><sharedDeadLetterStrategy deadLetterQueue="DEAD"/></deadLetterStrategy></policyEntry>
</policyEntries></policyMap></destinationPolicy>
<ioExceptionHandler><leaseLockerIOExceptionHandler resumeCheckSleepPeriod="2500"/></ioExceptionHandler>
<plugins><simpleAuthenticationPlugin><users><authenticationUser username="joe" password="${p:x}"/></users>
</simpleAuthenticationPlugin></plugins>""",
    attributes='brokerName="b1" useJmx="true"',
    store=STORE.replace(
        "/></p",
        '><statements><statements tablePrefix="X_"/></statements><locker><lease-database-locker'
        ' lockAcquireSleepInterval="6000"/></locker></jdbcPersistenceAdapter></p',
    ),
    connectors="""<transportConnectors>
<transportConnector uri="stomp://0.0.0.0:61613?maximumConnections=10&amp;backlog=7"/></transportConnectors>""",
)
WORDS = sorted({name for kind in KINDS.values() for name in (kind.name, *kind.entries)})
PIECES = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(
        ["", " ", "<", ">", "/>", '"', "'", "&", "&lt;", "${x}", "${x:}", "#ds", "#", "-1", "0", "9" * 50, "1e9"]
    ),
    st.sampled_from(
        ["jdbc:mysql://h1,h2/a", "jdbc:postgresql:?", "stomp://:0?&=", "nan", "true", "<bean/>", "</broker>"]
    ),
    st.text(max_size=10),
)


def written_and_read(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "activemq.xml"
        path.write_text(text, "utf-8", errors="replace")
        xml = read_activemq_xml(path, {})
    for finding in xml.findings.found:
        assert finding.place.file == "activemq.xml"
        assert 0 <= finding.place.line <= text.count("\n") + text.count("\r") + 1


def test_the_file_to_begin_with_has_no_errors(tmp_path: Path) -> None:
    path = tmp_path / "activemq.xml"
    path.write_text(RICH)
    assert read_activemq_xml(path, {}).findings.errors == []


@settings(max_examples=examples(100), deadline=20_000, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(0, len(RICH)), st.integers(0, 40), PIECES), min_size=1, max_size=3))
def test_a_file_with_pieces_of_another_is_read(changes: list[tuple[int, int, str]]) -> None:
    text = RICH
    for start, length, piece in changes:
        text = text[:start] + piece + text[start + length :]
    written_and_read(text)


@settings(max_examples=examples(100), deadline=20_000, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, RICH.count('="') - 1), PIECES)
def test_any_value_is_read(which: int, value: str) -> None:
    """The file stays XML, and one value in it is another."""
    parts = RICH.split('="')
    head, _, tail = parts[which + 1].partition('"')
    del head
    safe = value.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    parts[which + 1] = f'{safe}"{tail}'
    written_and_read('="'.join(parts))
