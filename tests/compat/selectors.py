"""Messages and random selectors to compare with a real ActiveMQ, and the question to it.

``tests/vectors/selectors.jsonl`` holds its answers: a line with messages (OpenWire frames, hexadecimal, by name), then
a line for each selector, what it is about and the answer, a letter for each message: T true, F false, N unknown, ! an
exception. ``python -m tests.compat.selectors`` asks anew and rewrites that file; to add a selector, add
``{"about": "LIKE", "selector": "..."}`` to it first.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from jdbcstore.destination import Queue, TempQueue, Topic
from jdbcstore.identifiers import BrokerId, ConnectionId, LocalTransactionId, MessageId, ProducerId, XATransactionId
from jdbcstore.message import Message, TextMessage
from jdbcstore.openwire import marshal
from jdbcstore.primitives import Byte, Char, Float, Long, Short, Value
from tests.compat.activemq import compile_java, quick_start
from tests.servers.server import ServerFailed

VECTORS = Path(__file__).parents[1] / "vectors" / "selectors.jsonl"
CONVERT = "convert_string_expressions:"


@dataclass(frozen=True)
class Answer:
    """What ActiveMQ says about a selector.

    Attributes:
        results: a letter for each message; None if the selector cannot be read.
        error: why it cannot be read; None if it can.
    """

    results: str | None = None
    error: str | None = None


def ask(class_path: str, selectors: Iterable[str], messages: Sequence[Message]) -> list[Answer]:
    """The answer of the installed ActiveMQ to each selector, in order."""
    lines: list[object] = [[marshal(message).hex() for message in messages], *selectors]
    done = subprocess.run(
        ["java", *quick_start(class_path), "-cp", class_path, "Selectors"],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if done.returncode != 0:
        raise ServerFailed(f"Selectors.java failed\n{done.stderr[-4000:]}")
    answers = [Answer(**json.loads(line)) for line in done.stdout.splitlines()]
    if len(answers) != len(lines) - 1:
        raise ServerFailed(f"{len(answers)} answers to {len(lines) - 1} selectors\n{done.stderr[-4000:]}")
    return answers


# --- messages ---------------------------------------------------------------------------------------------------------

TYPED: dict[str, Value] = {
    "aBoolean": True,
    "aByte": Byte(5),
    "aShort": Short(5),
    "anInt": 5,
    "aLong": Long(5),
    "aFloat": Float(2.5),
    "aDouble": 2.5,
    "aString": "red",
    "aCharacter": Char("r"),
    "aNull": None,
    "aList": [1, "two"],
    "aMap": {"key": "value"},
    "someBytes": b"bytes",
    "equalBytes": b"bytes",
    "colour": "red",
    "size": 10,
    "price": 99.5,
    "urgent": True,
}

EXTREMES: dict[str, Value] = {
    "aBoolean": False,
    "aByte": Byte(-128),
    "aShort": Short(-32768),
    "anInt": -(1 << 31),
    "aLong": Long(-(1 << 63)),
    "aFloat": Float(3.4028234663852886e38),
    "aDouble": 1.7976931348623157e308,
    "aString": "",
    "aCharacter": Char("\u00e4"),
    "colour": "RED",
    "size": (1 << 31) - 1,
    "price": 0.1,
    "urgent": False,
    "largeLong": Long((1 << 63) - 1),
    "preciseLong": Long((1 << 53) + 1),
    "roundsTwice": Long((1 << 61) + (1 << 37) + 1),
    "tenth": Float(0.1),
}

STRANGE: dict[str, Value] = {
    "aBoolean": "true",
    "aFloat": Float(float("nan")),
    "aDouble": float("nan"),
    "zero": 0.0,
    "minusZero": -0.0,
    "zeroFloat": Float(0.0),
    "minusZeroFloat": Float(-0.0),
    "infinite": float("inf"),
    "minusInfinite": float("-inf"),
    "anInt": 0,
    "aLong": Long(0),
    "colour": "blue",
    "size": "large",
    "price": Float(0.1),
    "urgent": 1,
    "$dollar_1": 1,
    "_under": 1,
    "NOT_": 1,
    "JMSXUnknown": "x",
    "JMSXUserID": "from a property",
    "JMS_Vendor": 1,
}

TEXTS: dict[str, Value] = {
    "aString": "100%_\\real",
    "colour": "it's",
    "one": "a",
    "line": "first\nsecond",
    "highPlane0": "\ufffd",
    "umlaut": "Gr\u00fc\u00dfe",
    "brackets": "[a-z]+(x|y)*.?^${1}",
    "prefix": "abcabcabd",
    "size": "10",
    "price": "99.5",
    "urgent": "TRUE",
}

#: All strings, as a STOMP client's.
STOMP: dict[str, Value] = {
    "colour": "red",
    "size": "10",
    "price": "99.50",
    "urgent": "true",
    "notUrgent": "False",
    "word": "ten",
    "empty": "",
    "blank": " 7",
    "plus": "+7",
    "zeros": "007",
    "minus": "-7",
    "large": "3000000000",
    "huge": "99999999999999999999",
    "exponent": "1e3",
    "suffix": "2.5f",
    "notANumber": "NaN",
    "endless": "-Infinity",
    "hexadecimal": "0x1p3",
    "underscore": "1_0",
    "arabic": "\u0661\u0660",
    "mathematical": "\U0001d7cf\U0001d7ce",
    "point": ".5",
    "padded": "\t 2.5 \n",
    "anInt": 10,
    "aByte": Byte(10),
    "aShort": Short(10),
    "aLong": Long(10),
    "aFloat": Float(99.5),
    "aDouble": 99.5,
    "aBoolean": True,
    "aCharacter": Char("7"),
    "aList": ["7"],
}


def named_messages() -> dict[str, Message]:
    """The messages of the vectors."""
    producer = ProducerId("ID:host.example-40001-1700000000000-1:1", 1, 2)
    connection = ConnectionId("ID:host.example-40001-1700000000000-1:1")
    return {
        "bare": Message(),
        "typed": _message(TYPED),
        "extremes": _message(EXTREMES),
        "strange": _message(STRANGE),
        "texts": _message(TEXTS),
        "stomp": _message(STOMP),
        "headers": _message(
            {"colour": "red"},
            destination=Queue("ORDERS.EU"),
            reply_to=Topic("REPLIES"),
            message_id=MessageId(producer, 7),
            correlation_id="c-1",
            type="order",
            persistent=True,
            priority=9,
            timestamp=1_700_000_000_000,
            expiration=1_700_000_060_000,
            redelivery_counter=2,
            group_id="g",
            group_sequence=3,
            user_id="alice",
            transaction_id=LocalTransactionId(4, connection),
            broker_in_time=1_700_000_000_001,
            broker_out_time=1_700_000_000_002,
            broker_path=(BrokerId("one"), BrokerId("two")),
            first_for_consumer=True,
        ),
        "moved": _message(
            {},
            destination=Queue("ActiveMQ.DLQ"),
            original_destination=Topic("PRICES"),
            reply_to=TempQueue("ID:host.example-40001-1700000000000-1:1:1"),
            message_id=MessageId.parse("any text"),
            persistent=False,
            priority=0,
            group_sequence=-1,
            transaction_id=LocalTransactionId(4, connection),
            original_transaction_id=XATransactionId(1, b"\x01\xff", b"\x02"),
            broker_path=(),
        ),
    }


def random_messages(random: Random, count: int) -> list[Message]:
    """Messages whose properties a to e are absent or of any type."""
    return [
        _message(
            {name: random.choice(VALUES) for name in "abcde" if random.random() < 0.8}, priority=random.randint(0, 9)
        )
        for _ in range(count)
    ]


def _message(properties: dict[str, Value], **fields: object) -> Message:
    message = TextMessage(**fields)  # type: ignore[arg-type]  # fields of a message
    message.properties = properties
    return message


#: Doubles that every Java prints alike; no characters beyond U+FFFF, which ActiveMQ's reader of properties mistakes.
VALUES: list[Value] = [
    *(True, False, None),
    *(Byte(0), Byte(7), Byte(-1), Short(0), Short(7), Short(300)),
    *(0, 1, 7, -1, 10, (1 << 31) - 1, -(1 << 31), 1 << 24, (1 << 24) + 1),
    *(Long(0), Long(7), Long(1 << 31), Long((1 << 63) - 1), Long(-(1 << 63)), Long((1 << 53) + 1)),
    *(Float(0.0), Float(-0.0), Float(0.5), Float(7.0), Float(1 << 24), Float(float("nan")), Float(float("inf"))),
    *(0.0, -0.0, 0.5, 7.0, 1e10, -2.5, float("nan"), float("inf"), float("-inf"), float(1 << 53)),
    *("", "a", "b", "ab", "abab", "ba%", "a_b", "\u00fc", "\ufffd"),
    *("0", "7", "-1", "7.0", "0.5", " 7 ", "true", "false", "TRUE", "1e10", "16777217", "2147483648", "NaN"),
    *(Char("a"), [1], {"k": 1}),
]

# --- selectors --------------------------------------------------------------------------------------------------------


def random_selector(random: Random) -> str:
    """A selector of the grammar, which may be refused for what it compares."""
    text = _condition(random, 3)
    return CONVERT + text if random.random() < 0.4 else text


def _condition(random: Random, depth: int) -> str:
    if depth and random.random() < 0.5:
        inner = [f"({_condition(random, depth - 1)})" for _ in range(random.randint(1, 3))]
        return f"NOT {inner[0]}" if len(inner) == 1 else f" {random.choice(['AND', 'OR'])} ".join(inner)
    no = random.choice(["", "", "NOT "])
    name = random.choice("abcdef")
    strings = ", ".join(random.choice(_STRINGS) for _ in range(random.randint(1, 6)))
    pattern = "".join(random.choice("ab%_!") for _ in range(random.randint(0, 5)))
    escape = random.choice(["", "", " ESCAPE '!'", " ESCAPE '_'", " ESCAPE '%'", " ESCAPE 'a'"])
    one, two, three = (_operand(random, 2, 0.1) for _ in range(3))
    equality = f"{_operand(random, 2, 0.4)} {random.choice(['=', '<>'])} {_operand(random, 2, 0.4)}"
    order = f"{one} {random.choice(['<', '<=', '>', '>='])} {two}"
    choices: list[str] = [
        *(equality, equality, equality, order, order),
        f"{one} {no}BETWEEN {two} AND {three}",
        f"{name} {no}IN ({strings})",
        f"{random.choice([name, one])} {no}LIKE '{pattern}'{escape}",
        f"{one} IS {no}NULL",
        name,
        random.choice(["TRUE", "FALSE", "NULL"]),
    ]
    return random.choice(choices)


_NUMBERS = ["0", "1", "7", "-1", "7.0", "0.5", "2147483647", "2147483648", "9007199254740993", "1e10", "16777217"]
_NAMES = ["a", "b", "c", "d", "e", "f", "JMSPriority", "JMSTimestamp"]
_STRINGS = ["''", "'a'", "'b'", "'ab'", "'7'", "'7.0'", "'true'"]


def _operand(random: Random, depth: int, strings: float) -> str:
    if depth and random.random() < 0.25:
        one, two = _operand(random, depth - 1, strings), _operand(random, depth - 1, strings)
        sign = random.choice("+-*/%")
        return random.choice([f"({one} {sign} {two})", f"-({one})", f"+{one}"])
    if random.random() < strings:
        return random.choice([*_STRINGS, "TRUE", "JMSDeliveryMode"])
    return random.choice(_NUMBERS if random.random() < 0.5 else _NAMES)


_WORDS = [
    *"aabbcc(())=<>+-*/%,.;\u00fc",
    "'",
    '"',
    "''",
    "'x'",
    "'%'",
    "<>",
    "<=",
    ">=",
    "!=",
    "AND",
    "OR",
    "NOT",
    "IN",
]
_WORDS += [
    "LIKE",
    "ESCAPE",
    "BETWEEN",
    "IS",
    "NULL",
    "TRUE",
    "1",
    "2.5",
    "0x1",
    "07",
    "08",
    "5L",
    "1e",
    ".5",
    "e1",
    "L",
]
_PIECES = ["a", "b = 1", "c IN ('x')", "a LIKE 'x'", "a IS NULL", "b BETWEEN 1 AND 2", "1 < b", "NOT", "AND", "OR"]
_PIECES += ["(", ")", "+ 1", "- b", "* 2", "/**/", "--x\n", "\t", "= TRUE"]


def random_words(random: Random) -> str:
    """Words in any order, which are seldom a selector."""
    words = random.choice([_WORDS, _PIECES, _PIECES])
    return "".join(random.choice(words) + random.choice(["", " ", " ", " "]) for _ in range(random.randint(1, 9)))


def main() -> None:
    """Rewrite the vectors."""
    messages = named_messages() | {f"random-{i}": message for i, message in enumerate(random_messages(Random(42), 24))}
    lines = [json.loads(line) for line in VECTORS.read_text("ascii").splitlines()[1:]]
    with tempfile.TemporaryDirectory() as folder:
        answers = ask(compile_java(Path(folder)), [line["selector"] for line in lines], list(messages.values()))
    with VECTORS.open("w", encoding="ascii") as out:
        out.write(json.dumps({name: marshal(message).hex() for name, message in messages.items()}) + "\n")
        for line, answer in zip(lines, answers, strict=True):
            said = {"results": answer.results} if answer.error is None else {"error": True}
            out.write(json.dumps({"about": line["about"], "selector": line["selector"], **said}) + "\n")


if __name__ == "__main__":
    main()
