"""``${…}`` is filled in from property files, system properties and the environment, within bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.config.activemq_xml.placeholders import Placeholders, locate, read_properties, system_properties
from jdbcstore.errors import ConfigurationError
from tests.unit.config.written import POSTGRESQL, document, errors, options, read, warnings

CONFIGURER = "org.springframework.beans.factory.config.PropertyPlaceholderConfigurer"
SOURCES = "org.springframework.context.support.PropertySourcesPlaceholderConfigurer"


def placeholders(**environment: str) -> Placeholders:
    return Placeholders({"activemq.data": "/data", "a": "A", "b": "${a}${a}"}, environment)


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("plain $ { } text", "plain $ { } text"),
        ("${activemq.data}/kahadb", "/data/kahadb"),
        ("${b}-${a}", "AA-A"),
        ("${none:default}", "default"),
        ("${none:}", ""),
        ("${none:jdbc:mysql://x}", "jdbc:mysql://x"),
        ("${none:${a}}", "A"),
        ("${none:${none2:deep}}", "deep"),
        ("${${name}}", "A"),
        ("${DB_PASSWORD}", "secret"),
        ("${db.password}", "secret"),
        ("${db-password}", "secret"),
        ("${with:colon}", "found"),
        ("${unclosed", "${unclosed"),
    ],
)
def test_a_placeholder_is_replaced(text: str, resolved: str) -> None:
    assert placeholders(DB_PASSWORD="secret", name="a", **{"with:colon": "found"}).resolve(text) == resolved


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("${unknown}", "nobody knows ${unknown}: set it as an environment variable"),
        ("${loop}", "${loop} refers to itself: loop → loop2 → loop"),
        ("#{systemProperties['a']}", "Spring's expressions"),
        ("${secret}", "encrypted by Jasypt"),
        ("${laugh9}", "needs more than 1000 other values"),
        ("${long}" * 100, "grows beyond 65536 characters"),
        ("${" * 1000 + "}" * 1000, "more than 50 placeholders inside each other"),
    ],
)
def test_what_cannot_be_replaced_is_an_error(text: str, what: str) -> None:
    ours = placeholders(
        loop="${loop2}",
        loop2="${loop}",
        secret="ENC(abc)",
        long="x" * 1000,
        laugh0="ha",
        **{f"laugh{i}": f"${{laugh{i - 1}}}" * 10 for i in range(1, 10)},
    )
    with pytest.raises(ConfigurationError) as caught:
        ours.resolve(text)
    assert what in str(caught.value)


@pytest.mark.parametrize(
    ("system", "resolved"), [("fallback", "file, system"), ("override", "system, system"), ("never", "file, system")]
)
def test_who_goes_before_whom(system: str, resolved: str) -> None:
    ours = Placeholders({"x": "system", "y": "system"}, {"x": "environment"})
    ours.add({"x": "file"}, system=system)
    assert ours.resolve("${x}, ${y}") == resolved


def test_unknown_names_may_be_let_stand() -> None:
    ours = placeholders()
    ours.add({}, leave_unknown=True)
    assert ours.resolve("${unknown} ${a}") == "${unknown} A"


def test_system_properties_follow_from_the_place_of_the_file() -> None:
    properties = system_properties(Path("/opt/activemq/conf/activemq.xml"), {})
    assert {name: properties[f"activemq.{name}"] for name in ("conf", "base", "data", "home")} == {
        "conf": "/opt/activemq/conf",
        "base": "/opt/activemq",
        "data": "/opt/activemq/data",
        "home": "/opt/activemq",
    }
    assert system_properties(Path("/etc/main/activemq.xml"), {})["activemq.base"] == "/etc/main"


def test_system_properties_follow_from_the_environment() -> None:
    environment = {
        "ACTIVEMQ_BASE": "/var/lib/main",
        "ACTIVEMQ_OPTS": "-Xmx512M -Dactivemq.data=/srv -Ddb.password='a b' -Dflag",
        "HOME": "/home/joe",
    }
    properties = system_properties(Path("/etc/main/activemq.xml"), environment)
    assert (properties["activemq.base"], properties["activemq.data"]) == ("/var/lib/main", "/srv")
    assert (properties["db.password"], properties["flag"], properties["user.home"]) == ("a b", "", "/home/joe")
    with pytest.raises(ConfigurationError, match="ACTIVEMQ_OPTS"):
        system_properties(Path("a.xml"), {"ACTIVEMQ_OPTS": "-Da='b"})


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("file:/etc/a.properties", "/etc/a.properties"),
        ("file:///etc/a.properties", "/etc/a.properties"),
        ("file:a.properties", "/conf/a.properties"),
        ("classpath:a.properties", "/conf/a.properties"),
        ("classpath*:/sub/a.properties", "/conf/sub/a.properties"),
        ("/etc/a.properties", "/etc/a.properties"),
        ("a.properties", "/conf/a.properties"),
    ],
)
def test_a_location_is_a_file(location: str, path: str) -> None:
    assert locate(location, Path("/conf")) == Path(path)


@pytest.mark.parametrize("location", ["http://example.com/a", "https://example.com/a", "ftp://x/y", "jar:file:/a!/b"])
def test_nothing_is_fetched(location: str) -> None:
    with pytest.raises(ConfigurationError, match="only files are"):
        locate(location, Path("/conf"))


def test_property_files_are_javas(tmp_path: Path) -> None:
    path = tmp_path / "a.properties"
    path.write_bytes(b"# comment\na = 1\\\n  2\nb:\\u00e4\nc \xe4\n! more\nd\\=e=f\n")
    assert read_properties(path) == {"a": "12", "b": "ä", "c": "ä", "d=e": "f"}


def test_property_files_that_cannot_be_read_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "a.properties"
    path.write_bytes(b"a=\\u00\n")
    with pytest.raises(ConfigurationError, match=r"a\.properties"):
        read_properties(path)
    path.write_bytes(b"a" * (1 << 21))
    with pytest.raises(ConfigurationError, match="too large"):
        read_properties(path)
    with pytest.raises(ConfigurationError, match="cannot read"):
        read_properties(tmp_path)


# -- in a file -------------------------------------------------------------------------------------------------------


def credentials(folder: Path, text: str, name: str = "credentials.properties") -> None:
    (folder / "conf").mkdir(exist_ok=True)
    (folder / "conf" / name).write_text(text, "iso-8859-1")


def named(tmp_path: Path, beans: str, **environment: str) -> str:
    xml = read(tmp_path, document(attributes='brokerName="${n}"', beans=POSTGRESQL + beans), environment)
    return options(xml)["broker.broker_name"]


@pytest.mark.parametrize(
    "beans",
    [
        f"""<bean class="{CONFIGURER}">
        <property name="location" value="file:${{activemq.conf}}/credentials.properties"/></bean>""",
        f"""<bean class="{CONFIGURER}"><property name="locations">
        <value>file:${{activemq.base}}/conf/credentials.properties</value></property></bean>""",
        f"""<bean class="{SOURCES}"><property name="locations"><list><value>classpath:none.properties</value>
        <value>classpath:credentials.properties</value></list></property>
        <property name="ignoreResourceNotFound" value="true"/></bean>""",
        '<context:property-placeholder location="classpath:credentials.properties"/>',
        """<context:property-placeholder location="file:none.properties, credentials.properties" order="1"
        ignore-resource-not-found="true"/>""",
        f"""<bean class="{CONFIGURER}"><property name="properties">
        <props><prop key="n">file</prop></props></property></bean>""",
        f'<bean class="{CONFIGURER}"><property name="properties"><value>n=file</value></property></bean>',
        '<bean class="org.jasypt.spring4.properties.EncryptablePropertyPlaceholderConfigurer">'
        '<constructor-arg ref="x"/><property name="location" value="credentials.properties"/></bean>',
    ],
)
def test_properties_come_from_files(tmp_path: Path, beans: str) -> None:
    credentials(tmp_path, "n = file\n")
    assert named(tmp_path, beans) == "file"


@pytest.mark.parametrize(
    ("beans", "name"),
    [
        (f'<bean class="{CONFIGURER}" p:location="credentials.properties"/>', "file"),
        (f'<bean class="{CONFIGURER}" p:location="credentials.properties" p:systemPropertiesMode="2"/>', "environment"),
        (
            f'<bean class="{CONFIGURER}" p:location="credentials.properties"'
            ' p:systemPropertiesModeName="SYSTEM_PROPERTIES_MODE_NEVER"/>',
            "file",
        ),
        (f'<bean class="{SOURCES}" p:location="credentials.properties"/>', "environment"),
        (f'<bean class="{SOURCES}" p:location="credentials.properties" p:localOverride="true"/>', "file"),
        ('<context:property-placeholder location="credentials.properties"/>', "environment"),
        ('<context:property-placeholder location="credentials.properties" local-override="true"/>', "file"),
        ('<context:property-placeholder location="credentials.properties" system-properties-mode="FALLBACK"/>', "file"),
    ],
)
def test_files_and_environment_have_springs_order(tmp_path: Path, beans: str, name: str) -> None:
    credentials(tmp_path, "n = file\n")
    assert named(tmp_path, beans, n="environment") == name


def test_without_a_configurer_system_properties_are_known(tmp_path: Path) -> None:
    assert named(tmp_path, "", N="environment") == "environment"


@pytest.mark.parametrize(
    ("beans", "what"),
    [
        (f'<bean class="{CONFIGURER}" p:location="none.properties"/>', "activemq.xml:6: there is no file "),
        (f'<bean class="{CONFIGURER}" p:location="http://x/y"/>', "only files are"),
        (f'<bean class="{CONFIGURER}" p:placeholderPrefix="@"/>', "placeholderPrefix is not supported"),
        (f'<bean class="{CONFIGURER}" p:systemPropertiesMode="9"/>', "is no mode of system properties"),
        ('<context:property-placeholder properties-ref="x"/>', "properties-ref is not supported"),
        ('<context:annotation-config/>', "<context:annotation-config> is not supported"),
        ('<bean class="org.springframework.beans.factory.config.PropertyOverrideConfigurer"/>', "is not supported"),
    ],
)  # fmt: skip
def test_a_configurer_that_is_wrong_is_told(tmp_path: Path, beans: str, what: str) -> None:
    xml = read(tmp_path, document(beans=POSTGRESQL + beans))
    assert any(what in text for text in errors(xml) + warnings(xml)), errors(xml)


def test_an_unknown_placeholder_has_its_line(tmp_path: Path) -> None:
    (error,) = errors(read(tmp_path, document(attributes='useJmx="false"\nbrokerName="${who}"')))
    assert error.startswith("activemq.xml:8: nobody knows ${who}: ")


def test_encrypted_values_are_errors_where_they_are_used(tmp_path: Path) -> None:
    credentials(tmp_path, "n=ENC(mYRkg+4Q4hua1kvpCCI2hg==)\nother=ENC(x)\n")
    beans = f'<bean class="{CONFIGURER}" p:location="credentials.properties"/>'
    (error,) = errors(read(tmp_path, document(attributes='brokerName="${n}"', beans=POSTGRESQL + beans)))
    assert error.startswith("activemq.xml:7: ${n} is encrypted by Jasypt")


# -- imports ---------------------------------------------------------------------------------------------------------


def test_imported_files_bring_their_beans(tmp_path: Path) -> None:
    namespace = 'xmlns="http://www.springframework.org/schema/beans"'
    beans = f'<beans {namespace}>\n{POSTGRESQL}\n<import resource="activemq.xml"/></beans>'
    credentials(tmp_path, beans, "data-source.xml")
    xml = read(tmp_path, document(beans='<import resource="classpath:data-source.xml"/>'))
    assert options(xml)["store.url"] == "postgresql://joe:***@db:5432/activemq"
    assert str(xml.findings.used[0].place) == "data-source.xml:3"


def test_errors_in_imported_files_have_their_names(tmp_path: Path) -> None:
    credentials(
        tmp_path, '<beans xmlns="http://www.springframework.org/schema/beans">\n<bean id="ds"/></beans>', "ds.xml"
    )
    found = errors(read(tmp_path, document(beans='<import resource="ds.xml"/>')))
    assert found[0] == "ds.xml:2: <bean> has no class"


@pytest.mark.parametrize(
    ("resource", "why"),
    [("jetty.xml", "web_bind (--web-bind) serves our console"), ("${activemq.conf}/camel.xml", "no Camel routes")],
)
def test_what_the_distribution_imports_is_not_read(tmp_path: Path, resource: str, why: str) -> None:
    (warning,) = warnings(read(tmp_path, document(beans=POSTGRESQL + f'<import resource="{resource}"/>')))
    assert why in warning


@pytest.mark.parametrize("resource", ["none.xml", "http://example.com/beans.xml", "credentials.properties"])
def test_an_import_that_fails_is_an_error(tmp_path: Path, resource: str) -> None:
    credentials(tmp_path, "n = file\n")
    assert len(errors(read(tmp_path, document(beans=POSTGRESQL + f'<import resource="{resource}"/>')))) == 1
