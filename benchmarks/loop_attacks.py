"""Attacks on a broker's event loop, for `benchmarks.abuse` and, at a smaller scale, for the tests.

Each asks for as much as one client may, in one command or in many at once, and waits until it is done.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from benchmarks.attacks import Attack, Target
from jdbcstore.destination import Queue
from jdbcstore.openwire.commands import ACK_POISON
from tests.broker.client import Client, Frame

__all__ = ["LOOP_ATTACKS"]

_QUEUE = "/queue/abuse.loop"


def send_all(client: Client, frames: Iterable[bytes]) -> None:
    """Write frames, and wait until the broker has come to the end of them."""
    data = [*frames, b"BEGIN\ntransaction:last\nreceipt:last\n\n\0", b"ABORT\ntransaction:last\nreceipt:done\n\n\0"]
    client.socket.settimeout(60)
    client.write(b"".join(data))
    while client.frame().headers.get("receipt-id") != "done":
        pass


def held(
    target: Target, count: int, version: str = "1.2", ack: str = "client-individual"
) -> tuple[Client, list[Frame]]:
    """A client that has so many messages and acknowledges none of them yet."""
    sends = (b"SEND\ndestination:%s\n\nx\0" % _QUEUE.encode() for _ in range(count))
    send_all(target.client(timeout_s=60), sends)
    client = target.client(timeout_s=60, version=version)
    client.subscribe(_QUEUE, ack, activemq_prefetchSize="100000")
    return client, [client.message() for _ in range(count)]


def acks(client: Client, messages: Iterable[Frame], **headers: str) -> list[bytes]:
    """An ACK of each."""
    more = "".join(f"{name}:{value}\n" for name, value in headers.items())
    lines = ("".join(f"{name}:{value}\n" for name, value in client.named(message).items()) for message in messages)
    return [f"ACK\n{named}{more}\n\0".encode() for named in lines]


def aborts(target: Target) -> None:
    """ABORTs of 2 000 of 50 000 messages, one by one acknowledged; a consumer in mode client covers them itself."""
    for ack in ("client-individual", "client"):
        client, messages = held(target, target.times(50_000), ack=ack)
        some = messages[: target.times(2000)]
        for number in range(5):
            frames = acks(client, some if ack == "client-individual" else some[-1:], transaction=f"t{number}")
            begin, abort = (f"{verb}\ntransaction:t{number}\n\n\0".encode() for verb in ("BEGIN", "ABORT"))
            send_all(client, [begin, *frames, abort])
        client.drop()


def cumulative(target: Target) -> None:
    """One ACK of 50 000 messages."""
    client, messages = held(target, target.times(50_000), ack="client")
    send_all(client, acks(client, messages[-1:]))


def bogus_acks(target: Target) -> None:
    """ACKs of messages that there are not, by who has 50 000, in each version."""
    for version in ("1.0", "1.1", "1.2"):
        client, _ = held(target, target.times(50_000), version)
        name = {"1.0": "message-id:x", "1.1": "subscription:1\nmessage-id:x", "1.2": "id:x"}[version]
        send_all(client, [f"ACK\n{name}\n\n\0".encode()] * target.times(5000))
        client.drop()


def long_ack(target: Target) -> None:
    """Short ACKs before one with a long name, which is read in another way."""
    send_all(target.client(60), [b"ACK\nid:x\n\n\0"] * target.times(15_000) + [b"ACK\nid:%s\n\n\0" % (b"x" * 500)])


def nonsense(target: Target) -> None:
    """Frames that say nothing, each answered with an ERROR."""
    send_all(target.client(60), [b"ACK\n\n\0"] * target.times(40_000))


def goodbye(target: Target) -> None:
    """Connections that go with 50 000 messages: by UNSUBSCRIBE, by DISCONNECT, and without a word."""
    for command in (b"UNSUBSCRIBE\nid:1\nreceipt:r\n\n\0", b"DISCONNECT\nreceipt:r\n\n\0", b""):
        client, _ = held(target, target.times(50_000))
        if command:
            client.write(command)
            client.frame()
        client.drop()


def broken_at_once(target: Target) -> None:
    """Three hundred connections that are gone in the same moment, each with messages of one queue."""
    count = target.times(300)
    send = b"SEND\ndestination:%s\npersistent:true\n\n%s\0" % (_QUEUE.encode(), b"x" * 1000)
    send_all(target.client(timeout_s=60), [send] * (100 * count))
    clients = [target.client(timeout_s=60) for _ in range(count)]
    for client in clients:
        client.subscribe(_QUEUE, "client-individual", activemq_prefetchSize="100")
    for client in clients:
        client.drop()
    last = target.client(timeout_s=60)
    last.subscribe(_QUEUE, "client-individual", activemq_prefetchSize="1")
    last.message()


def wildcards(target: Target) -> None:
    """SUBSCRIBE and UNSUBSCRIBE of everything, with 20 000 queues that hold a message each."""
    client, count = target.client(60), target.times(20_000)
    send_all(client, (b"SEND\ndestination:/queue/abuse.many.%d\n\nx\0" % number for number in range(count)))
    subscribe = b"SUBSCRIBE\nid:all\ndestination:/queue/abuse.many.>\nack:client\nactivemq.prefetchSize:1\n\n\0"
    for _ in range(3):
        send_all(client, [subscribe, b"UNSUBSCRIBE\nid:all\n\n\0"])


def durable_wildcards(target: Target) -> None:
    """A durable subscription to everything, with 10 000 topics, taken up, left and removed."""
    client, count = target.client(60, client_id="abuse.durable"), target.times(10_000)
    send_all(client, (b"SEND\ndestination:/topic/abuse.many.%d\n\nx\0" % number for number in range(count)))
    named = b"id:d\ndestination:/topic/abuse.many.>\nactivemq.subscriptionName:all\n\n\0"
    send_all(client, [b"SUBSCRIBE\n" + named, b"UNSUBSCRIBE\nid:d\n\n\0", b"UNSUBSCRIBE\n" + named])


def new_names(target: Target) -> None:
    """New destinations, where 5 000 subscriptions cover others, and some cover these."""
    client = target.client(60)
    for kind in ("queue", "topic"):
        patterns = [*(f"abuse.{kind}.{number}.>" for number in range(target.times(2500))), *["abuse.new.>"] * 50]
        send_all(
            client,
            (
                f"SUBSCRIBE\nid:{kind}{number}\ndestination:/{kind}/{pattern}\n\n\0".encode()
                for number, pattern in enumerate(patterns)
            ),
        )
        send = f"SEND\ndestination:/{kind}/abuse.new."
        send_all(client, (f"{send}{number}\n\nx\0".encode() for number in range(target.times(1000))))


def awaited_topics(target: Target) -> None:
    """New topics that 3 000 durable subscriptions wait for, in use and not."""
    client, sender, count = target.client(60, client_id="abuse.awaiting"), target.client(60), target.times(3000)
    subscribe = b"SUBSCRIBE\nid:%d\ndestination:/topic/abuse.awaited.>\nactivemq.subscriptionName:n%d\n\n\0"
    send_all(client, (subscribe % (number, number) for number in range(count)))
    send = b"SEND\ndestination:/topic/abuse.awaited.%s\npersistent:true\n\nx\0"
    send_all(sender, [send % b"in-use"])
    client.drop()
    send_all(sender, [send % b"offline"])


def one_queue(target: Target) -> None:
    """5 000 subscriptions to one queue, used and given up, one by one and by closing the connection."""
    for is_closed in (False, True):
        client, count = target.client(60, version="1.0"), target.times(5000)
        subscribe = b"SUBSCRIBE\ndestination:%s\nack:client\n\n\0" % _QUEUE.encode()
        send_all(client, [subscribe] * count)
        send_all(client, [b"SEND\ndestination:%s\n\nx\0" % _QUEUE.encode()] * count)
        if not is_closed:
            send_all(client, [b"UNSUBSCRIBE\ndestination:%s\n\n\0" % _QUEUE.encode()] * count)
        client.drop()


def fan_out(target: Target) -> None:
    """Messages to a topic with 5 000 subscriptions."""
    client, count = target.client(60), target.times(5000)
    subscribe = b"SUBSCRIBE\nid:%d\ndestination:/topic/abuse.fan-out\n\n\0"
    send_all(client, (subscribe % number for number in range(count)))
    send_all(client, [b"SEND\ndestination:/topic/abuse.fan-out\n\nx\0"] * 10)


def commits(target: Target) -> None:
    """COMMITs of 50 000 messages."""
    client, count = target.client(60), target.times(50_000)
    for number in range(3):
        send = b"SEND\ndestination:%s\npersistent:true\ntransaction:t%d\n\nx\0" % (_QUEUE.encode(), number)
        begin, commit = b"BEGIN\ntransaction:t%d\n\n\0" % number, b"COMMIT\ntransaction:t%d\n\n\0" % number
        send_all(client, [begin, *[send] * count, commit])


def selectors(target: Target) -> None:
    """Long selectors that nothing matches, over a full window."""
    client, count = target.client(60), target.times(2000)
    send_all(client, [b"SEND\ndestination:%s\na:%s\n\nx\0" % (_QUEUE.encode(), b"x" * 200)] * count)
    condition = " OR ".join(f"a LIKE '%y%{number}%'" for number in range(200))
    for number in range(20):
        subscribe = f"SUBSCRIBE\nid:{number}\ndestination:{_QUEUE}\nselector:{condition} OR b = {number}\n\n\0"
        send_all(client, [subscribe.encode()])


def expired(target: Target) -> None:
    """A subscription to a queue of 50 000 messages of which 49 in 50 have expired."""
    client, count = target.client(60), target.times(50_000)
    gone_s = time.time() + 1 + count / 5000
    send = b"SEND\ndestination:%s\npersistent:true\n%s\nx\0"
    expires = b"expires:%d\n" % (gone_s * 1000)
    send_all(client, (send % (_QUEUE.encode(), expires if number % 50 else b"") for number in range(count)))
    time.sleep(max(0.0, gone_s - time.time()))
    send_all(client, [b"SEND\ndestination:%s\npersistent:true\n\nlast\0" % _QUEUE.encode()])
    client.subscribe(_QUEUE, "client-individual", activemq_prefetchSize="100000")
    while client.message().text != "last":
        pass


def poison(target: Target) -> None:
    """Acknowledgements by which a JMS client refuses 50 000 messages each."""
    count, client = target.times(50_000), target.openwire()
    for number in range(3):
        send = b"SEND\ndestination:/queue/abuse.poison.%d\npersistent:true\n\nx\0" % number
        send_all(target.client(60), [send] * count)
        client.subscribe(Queue(f"abuse.poison.{number}"), count, number)
        dispatched = [client.dispatch() for _ in range(count)]
        client.acknowledge(dispatched[0], dispatched[-1], ACK_POISON, count)


def temporaries(target: Target) -> None:
    """A connection that goes with 1 000 temporary queues that hold messages."""
    client, count = target.client(60), target.times(1000)
    send = b"SEND\ndestination:/temp-queue/%d\n\nx\0"
    send_all(client, (send % (number % count) for number in range(20 * count)))
    client.drop()


def virtual_topic(target: Target) -> None:
    """A message, and COMMITs, to a virtual topic of 9 000 queues."""
    client, count = target.client(60), target.times(9000)
    use = b"SUBSCRIBE\nid:q\ndestination:/queue/Consumer.%d.VirtualTopic.abuse\n\n\0UNSUBSCRIBE\nid:q\n\n\0"
    send_all(client, (use % number for number in range(count)))
    send = b"SEND\ndestination:/topic/VirtualTopic.abuse\n%s\nx\0"
    for headers in (b"", b"persistent:true\n"):
        send_all(client, [send % headers])
        begin, commit = b"BEGIN\ntransaction:t\n\n\0", b"COMMIT\ntransaction:t\n\n\0"
        send_all(client, [begin, send % (headers + b"transaction:t\n"), commit])


LOOP_ATTACKS = [
    Attack("ABORT of many", aborts),
    Attack("one ACK of many", cumulative),
    Attack("ACKs of nothing", bogus_acks),
    Attack("ACK with a long id", long_ack),
    Attack("frames that say nothing", nonsense),
    Attack("goodbyes", goodbye),
    Attack("connections that break at once", broken_at_once),
    Attack("wildcards", wildcards),
    Attack("durable wildcards", durable_wildcards),
    Attack("new names", new_names),
    Attack("topics that many wait for", awaited_topics),
    Attack("one queue", one_queue),
    Attack("fan-out", fan_out),
    Attack("COMMIT of many", commits),
    Attack("selectors", selectors),
    Attack("expired messages between others", expired),
    Attack("poison", poison),
    Attack("temporary queues", temporaries),
    Attack("virtual topic", virtual_topic),
]
