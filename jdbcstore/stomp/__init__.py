"""STOMP 1.0, 1.1 and 1.2 as ActiveMQ speaks it: bytes in, events out. Knows no socket, no clock and no thread.

`frames` cuts bytes into frames and `dialect` reads their headers; `commands` turns frames into `events`, what a client
can ask for; `protocol` decides what is allowed when; `heartbeat` counts silence.
"""

from __future__ import annotations

from jdbcstore.stomp.dialect import VERSIONS
from jdbcstore.stomp.events import (
    Abort,
    Ack,
    AckMode,
    Acks,
    Begin,
    Commit,
    Connect,
    Disconnect,
    Event,
    Nack,
    Send,
    Subscribe,
    Unsubscribe,
)
from jdbcstore.stomp.frames import Frame, FrameParser, Limits, serialise
from jdbcstore.stomp.heartbeat import HeartBeat, negotiate
from jdbcstore.stomp.protocol import State, StompConnection

__all__ = [
    "VERSIONS",
    "Abort",
    "Ack",
    "AckMode",
    "Acks",
    "Begin",
    "Commit",
    "Connect",
    "Disconnect",
    "Event",
    "Frame",
    "FrameParser",
    "HeartBeat",
    "Limits",
    "Nack",
    "Send",
    "State",
    "StompConnection",
    "Subscribe",
    "Unsubscribe",
    "negotiate",
    "serialise",
]
