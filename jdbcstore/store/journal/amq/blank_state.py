"""The state of a reference store that is not clean: a broker that finds it reads its journal from the first record.

It is that of ActiveMQ 5.3.2 after its start with an empty directory, with two values in the map ``store-state`` that
matter: ``store-state`` false, ``INDEX_VERSION`` 7. The lists of durable subscriptions and prepared transactions are
empty.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from typing import Final

__all__ = ["blank_state"]

#: Lengths of a name and of the content of a file.
_HEAD: Final = struct.Struct(">HI")
_FILES: Final = (
    "c-rk)O=uHA6n?vDTAQTMgc3aHMFjDX1<j?m)SnhtFhxtMSTIg@C)wy`H=UhL*B%5#6x5rF_U6H3&kEkeYcIX_B!Wi|g5X7oGrJoy"
    "`7xI2#kwE7?9R)Z_vU@`=8*{`0Hl+3OUGXBCNj`^Not3H0M)htuIL{RPTAPS6zBz4i@K8F4tl5L1y3E_RVFLKl&!vn4a4Y#Rfj}*"
    "%S7v67$lj&5gk$F6PP=}txHTUZhnTiL*S@QY6@y1&A<xMXuX9Ss|q(&&e#@3bqf<!zxVpqlgiz%lPLhNxi$q!huQ?^9EvEW%ng5f"
    "-17>P%X{}c4rAPaLPmE9s+f4mtvDK~S1@sW{~D9>-u=%&h7x2s+}yUDP68=W=|KiS{^C<6q!}=mWs>3XX%7edt0I&0;nI%ZKrN)W"
    "v~DVzZD}qc*rE!ecB8H-r~Joh+cq(>=3cx>EEc}!Wsp>ew~*;#uL<F<9%M2TM4M8JXXme!m*+1nsf)$_O-%doOk~v*)uOnDN#^6r"
    "SKsbDm=*mJnC{vY-3DXz{^qm8$)_J4$($bMaDsb2#6t&R(*$ca(Q^b>G0Q>24l|Ir(T|?ceyZn?V_ZPZ_{7e;_u1>)F_0G^VcJMv"
    "VAR?~g-L1<>=?GGd(Fa}U!JM81MG8}iTpS7kao8TVUXp*wXMfy_MsSL6>dX}6XEbT<`>5Nw>V#__g~Zkq<OCjy04JnA9d7?P6O*U"
    "E;$vF*%=?>436xm@_NWfXZ)O#Fxa>ALVNraR(3d+#{EKOnv`U)!p#ljSq`?d8(rQBr%QtSAr$}-B1G695YE4p=sW+_U-jgOwg?gS"
    "+xd@e_nrTZQ9qO;>LNt==h61>8TsILF!<-e;AJTPyUWl|d=h>C"
)


def blank_state() -> Iterator[tuple[str, bytes]]:
    """Names and contents of its files."""
    data, o = zlib.decompress(base64.b85decode(_FILES)), 0
    while o < len(data):
        name_size, size = _HEAD.unpack_from(data, o)
        o += _HEAD.size
        yield data[o : o + name_size].decode(), data[o + name_size : o + name_size + size]
        o += name_size + size
