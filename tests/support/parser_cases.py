"""Texts for the parsers of Java and Kafka: known forms, and changes of them at random."""

from __future__ import annotations

import random
from collections.abc import Iterator

META = (
    b"#\n#Fri Nov 20 15:23:52 UTC 2026\nnode.id=1\ndirectory.id=Id4qCpYkZMw8zR87hsZyqQ\n"
    b"version=1\ncluster.id=4L6g3nShT-eMCtK--X86sw\n"
)
UUID = "AAAAAAAAAAAAAAAAAAAB-Q"
INTEGERS = [
    *("0", "00", "01", "+1", "-1", "-0", "+0", "+", "-", "", " 1", "1 ", "1_0", "0_0", "\u00a01"),
    *("²", "--5", "+-5", "٣", "१२", "９", "𝟙", "1.0", "1e3", "0x10", "1L", "1\0", "\u06f0\u06f1"),
    *("2147483647", "2147483648", "-2147483648", "-2147483649", "00000000000000000000000000000001"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "9" * 5000),
    *("0" * 5000 + "7", "\uff0b1", "\u22121", "1\n", "\t1", "௧", "𞥑", "𑱐", "𐴰"),
]
UUIDS = [
    *(UUID, UUID.replace("-", "+"), UUID.replace("-", "/"), f"{UUID}==", f"{UUID}=", f"{UUID}==="),
    *("12345678-1234-5678-1234-567812345678", f"{UUID}!!!!", f" {UUID}", f"{UUID}\n", UUID[:-1]),
    *(UUID[:-1] + "R", f"{UUID}A", UUID[:-1] + "_", UUID[:10] + "=" + UUID[11:], "", "=", "é" * 22),
    *(UUID[:21], UUID[:20], f"{UUID}AA", "A" * 24, "A" * 25, f"{UUID[:21]}=", f"{UUID[:20]}=="),
    *("zz", "A", "AA", "AAAA", f"{UUID[:20]}=", "A" * 16, f"{UUID[:18]}", "AAAAAAAAAAAAAAAAAAAAAA"),
]
PROPERTIES = [
    *(META, b"", b"version=1", b"version=0\nbroker.id=3\n", b"version=2\nnode.id=1\n"),
    META.replace(b"version=1", b"version=2"),
    META.replace(b"version=1", b"version = 1"),
    META.replace(b"version=1", b"version:1"),
    META.replace(b"version=1", b"version 1"),
    META.replace(b"version=1", b"vers\\\n   ion=1"),
    META.replace(b"version=1", b"version=1\\"),
    META.replace(b"version=1", b"version=\\u0031"),
    META.replace(b"version=1", b"version=\\u003"),
    META.replace(b"version=1", b"version=\\u00zz"),
    META.replace(b"version=1", b"\\u0076ersion=1"),
    META.replace(b"version=1", b"version=1 "),
    META.replace(b"version=1", b"version=1\xa0"),
    META.replace(b"version=1", b"version=1\x1c\0"),
    META.replace(b"version=1", b"version=1\x85"),
    META.replace(b"version=1", b"\\\n#x=1\nversion=1"),
    META.replace(b"version=1", b"\\\n\n version=1"),
    META.replace(b"version=1", b"version= \t1"),
    META + b"\\",
    META + b"\\\n",
    META + b"\\\r\n",
    META + b"\\\n  ",
    META + b"\\\n\n",
    META + b"x\\\n",
    META.replace(b"version=1", b"version=+1"),
    META.replace(b"version=1", b"version=01"),
    META.replace(b"version=1", b"version=-1"),
    META.replace(b"version=1", b"version="),
    META.replace(b"version=1", b"version"),
    META.replace(b"version=1", b"version=1\r#x\\\rnode.id=7"),
    META.replace(b"version=1\n", b""),
    META.replace(b"node.id=1", b"node.id=-1"),
    META.replace(b"node.id=1", b"node.id=1 "),
    META.replace(b"node.id=1", b"node.id=\xb2"),
    META.replace(b"node.id=1", b"node.id=" + b"9" * 5000),
    META.replace(b"node.id=1", b"node.id=1\nbroker.id=2"),
    META.replace(b"node.id=1", b"broker.id=1"),
    META.replace(b"node.id=1\n", b""),
    META.replace(b"cluster.id=4L6g3nShT-eMCtK--X86sw\n", b""),
    META.replace(b"4L6g3nShT-eMCtK--X86sw", b"anything at all"),
    META.replace(b"4L6g3nShT-eMCtK--X86sw", b""),
    META.replace(b"Id4qCpYkZMw8zR87hsZyqQ", b"AAAAAAAAAAAAAAAAAAAAAA"),
    META.replace(b"Id4qCpYkZMw8zR87hsZyqQ", b"AAAAAAAAAAAAAAAAAAAAAQ"),
    META.replace(b"Id4qCpYkZMw8zR87hsZyqQ", b"AAAAAAAAAAAAAAAAAAAAZA"),
    META.replace(b"Id4qCpYkZMw8zR87hsZyqQ", b""),
    META.replace(b"Id4qCpYkZMw8zR87hsZyqQ", b"Id4qCpYkZMw8zR87hsZyqQ "),
    META.replace(b"Id4qCpYkZMw8zR87hsZyqQ", b"Id4q\\\n  CpYkZMw8zR87hsZyqQ"),
    META.replace(b"\n", b"\r\n"),
    META.replace(b"\n", b"\r"),
    META.replace(b"\n", b"\x0b"),
    META.replace(b"\n", b"\x85"),
    b"version=0\ncluster.id=x\nbroker.id=1\nbroker.id=2\n",
    b"version=0\n",
    b"version=0\nbroker.id=x\n",
    b"broker.id=1\n",
    b"version=0\nnode.id=4\n",
    b"version=1\nnode.id=0\ncluster.id=x",
]
_ID = b"ybtBF9nnQpSN1SaSgbqm2Q"
TOPIC_IDS = [
    *(b"", b"\n", b"version: 0", b"version: 0\n", b"version: 0\ntopic_id: " + _ID),
    *(
        b"version: 0\ntopic_id: " + _ID + end
        for end in (b"\n", b"\r\n", b"\n\n", b" ", b"\nx", b"==")
    ),
    *(
        b"version:0\ntopic_id:" + _ID,
        b"version:  0\ntopic_id:\t" + _ID,
        b"version: +0\ntopic_id: " + _ID,
    ),
    *(
        b"version: " + n + b"\ntopic_id: " + _ID
        for n in (b"1", b"-1", b"x", b"00", b"0 ", b"", b"\xd9\xa0")
    ),
    *(b"x: 0\ny: " + _ID, b"version: 0: 1\ntopic_id: " + _ID, b"version: 0\ntopic_id: x: " + _ID),
    *(
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
    ),
    *(
        b"version: 0\rtopic_id: " + _ID,
        b"version: 0\x0btopic_id: " + _ID,
        b"version: 0\x85topic_id: " + _ID,
    ),
    *("version: 0\u2028topic_id: ".encode() + _ID, "version:\u00a00\ntopic_id: ".encode() + _ID),
    *(
        b"\xef\xbb\xbfversion: 0\ntopic_id: " + _ID,
        b"version: 0\ntopic_id: \xff" + _ID,
        b"version: 0\n\n",
    ),
    *(b"version: 0\ntopic_id: zz", b"version: 0\ntopic_id:", b"version: 0\ntopic_id: "),
    b"version: \n0\ntopic_id: " + _ID,
    b" version: 0\n topic_id: " + _ID,
    b"version:\x0b0\ntopic_id:\x0c" + _ID,
    b"version:\x1c0\ntopic_id: " + _ID,
]
CHECKPOINT_LINES = [
    *("0 0", "00 0", "0  0", "0\t0", "0 0 ", " 0 0", "0\u00a00", "0_0 0", "+0 +0", "-1 0", "0 -1"),
    *(
        "0",
        "",
        "0 0 0",
        "01 01",
        "x 0",
        "0 x",
        "0\x0b0",
        "0\x0c0",
        "0\x1c0",
        "0\u20280",
        "٠ ٠",
        "² 0",
    ),
    *("2147483647 9223372036854775807", "2147483648 0", "0 9223372036854775808", "9" * 5000 + " 0"),
]


def checkpoints(prefix: str) -> list[bytes]:
    """Checkpoints whose lines begin with a text."""
    texts = [f"0\n1\n{prefix}{line}\n" for line in CHECKPOINT_LINES]
    line = f"{prefix}0 0"
    texts += ["", "\n", "0", "0\n", "0\n0", "0\n0\n", "1\n1\n", f"0\n1\n{line}", f"0\n2\n{line}\n"]
    texts += [
        f"{v}\n{n}\n{line}\n"
        for v in ("0", "00", "+0", " 0", "0 ", "x", "", "٠", "-0")
        for n in ("1", "01", "+1", " 1", "1 ", "x", "")
    ]
    texts += [f"0\n1\n{line}\n\n", f"0\r1\r{line}\r", f"0\r\n1\r\n{line}\r\n", f"0\x0b1\x0b{line}"]
    texts += [f"0\x851\x85{line}", f"\ufeff0\n1\n{line}\n", f"0\n-1\n{line}\n", f"0\n1\n{line}\n\0"]
    return [*(text.encode() for text in texts), f"0\n1\n{line}\n".encode() + b"\xff", b"\xff0\n1\n"]


def known_inputs() -> list[tuple[str, bytes]]:
    """The known forms, each with its parser."""
    inputs = [(kind, text.encode()) for kind in ("int", "long") for text in INTEGERS]
    inputs += [("uuid", text.encode()) for text in UUIDS]
    inputs += [(kind, data) for kind in ("properties", "meta.properties") for data in PROPERTIES]
    inputs += [("partition.metadata", data) for data in TOPIC_IDS]
    inputs += [("leader-epoch-checkpoint", data) for data in checkpoints("")]
    inputs += [("recovery-point-offset-checkpoint", data) for data in checkpoints("a ")]
    return inputs


_PIECES = [
    *(
        piece.encode()
        for piece in (" ", "\t", "\n", "\r", "\\", "=", ":", "#", "0", "1", "-", "+", "_")
    ),
    *(
        piece.encode()
        for piece in ("\u00a0", "\u2028", "٣", "²", "\\u0041", "\\u00", "==", "!", "\f", "\v")
    ),
    *(b"\x85", b"\x1c", b"\xff", b"\0", b"\\\n", b"\\\r\n  ", b"9999999999", b"a", b"Z", b"/"),
]


def changed_inputs(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Known forms with up to three changes at random."""
    source = random.Random(seed)
    known = known_inputs()
    for _ in range(count):
        kind, data = source.choice(known)
        for _ in range(source.randint(1, 3)):
            start = source.randint(0, len(data))
            end = min(len(data), start + source.choice((0, 0, 1, 1, 2, 5)))
            data = data[:start] + source.choice(_PIECES) + data[end:]
        yield kind, data
