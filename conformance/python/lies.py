"""A server that answers what cannot be: whoever believed it would lose bytes, or take others' for his own."""

import json
import socket
import threading

import logberg

STATUS = {"cluster": "c", "node": 1, "understands": ["token", "checked"], "nodes": [], "logs": []}
CRC = f"{logberg.crc32c(b'bytes'):08x}"
END = b""  # the connection ends
HEARS = b"\0"  # something is heard before the rest is said


class Liar:
    """Answers `status`, and any other request with the next of these, of which the last one comes again and again."""

    def __init__(self, answers):
        self.answers = list(answers)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client:
            line = client.makefile("rb").readline()
            if line.split()[1:2] == [b"status"]:
                client.sendall(b"ok " + json.dumps(STATUS).encode() + b"\n")
                return
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            try:
                for part in answer.split(HEARS):
                    client.sendall(part)
                    if answer == END or not client.recv(65536):
                        return
            except OSError:
                pass

    def end(self):
        self.listener.close()


def _read(answer, **keys):
    return [answer], lambda client: b"".join(client.read("main", stream="1.1.1", **keys))


def _append(*answers, mode=None):
    def write(client):
        with client.append("main", **({"mode": mode} if mode else {})) as writer:
            writer.write(b"bytes")

    return answers, write


def _data(position, payload, crc=None):
    return f"data {position} {len(payload)} {crc or f'{logberg.crc32c(payload):08x}'}\n".encode() + payload


OPENED = b"stream 1.1.1 at=0\n" + HEARS
ACKED = f"ack 5 crc32c={CRC}\n".encode() + HEARS
READS = {
    "an end before the bytes that were said to be there": _read(b"reading from=0 length=5000 stale=0\nend 0 closed\n"),
    "an end that was not asked for": _read(b"reading from=0 length=0 stale=0\nend 0 to\n"),
    "an end before the one that was asked for": _read(b"reading from=0 length=9 stale=0\n" + _data(0, b"abc") + b"end 3 to\n", end=6),
    "an end of what is open and followed": _read(b"reading from=0 length=0 stale=0\nend 0 open\n", follow=True),
    "an end of no kind": _read(b"reading from=0 length=0 stale=0\nend 0 well\n"),
    "another beginning": _read(b"reading from=5 length=9 stale=0\nend 5 closed\n"),
    "stale bytes": _read(b"reading from=0 length=0 stale=1\nend 0 closed\n"),
    "not a word on whether it is stale": _read(b"reading from=0 length=0\nend 0 closed\n"),
    "bytes from elsewhere": _read(b"reading from=0 length=9 stale=0\n" + _data(4, b"abc")),
    "bytes past the end": _read(b"reading from=0 length=9 stale=0\n" + _data(0, b"abcd"), end=2),
    "other bytes": _read(b"reading from=0 length=3 stale=0\n" + _data(0, b"abc", "00000000")),
    "more bytes than a chunk may have": _read(b"reading from=0 length=9 stale=0\ndata 0 99999999 00000000\n"),
    "a negative number of bytes": _read(b"reading from=0 length=9 stale=0\ndata 0 -1 00000000\n"),
    "no number": _read(b"reading from=0 length=x stale=0\n"),
    "an answer to something else": _read(b"ok {}\n"),
}
APPENDS = {
    "a new stream that begins elsewhere": _append(b"stream 1.1.1 at=7\n"),
    "a wait that was not asked for": _append(b"waiting\nstream 1.1.1 at=0\n"),
    "an answer to something else": _append(b"closed 5\n"),
    "an acknowledgement of more than was sent": _append(OPENED + b"ack 100\n"),
    "an acknowledgement of less than nothing": _append(OPENED + b"ack -1\n"),
    "another checksum": _append(OPENED + b"ack 5 crc32c=00000000\n"),
    "a close at another place": _append(OPENED + ACKED, b"closed 4\n"),
    "something else while appending": _append(OPENED + b"ok {}\n"),
}


def _continued_by_another():
    """The answer to a continuation is lost, and the stream that is there is not the own one: it has bytes."""

    def write(client):
        with client.append("main") as writer:
            writer.write(b"bytes")
            writer.flush()
            writer.abandon()
            writer.write(b"and more")

    by_another = b"error continues length=5 at=5 by=2.1.1: It goes on.\n"
    with_bytes = b"error continues length=9 at=14: It is longer.\n"
    return [OPENED + ACKED, END, by_another, with_bytes], write


def _never_closed():
    """The close is refused as after a change of leader, again and again."""
    again = [b"stream 1.1.2 at=5\n" + HEARS, b"error superseded: It is over.\n"]
    return [OPENED + ACKED, b"error superseded: It is over.\n"] + 100 * again, _append()[1]


def _told(case, timeout=5.0):
    answers, act = case
    liar = Liar(answers)
    try:
        act(logberg.Client(liar.address, timeout=timeout, token=""))
        return "it was believed"
    except Exception as error:
        return type(error).__name__
    finally:
        liar.end()


def lies(*_):
    """Each is told as damage, and none is believed."""
    wrong = []
    for kind, cases in (("read", READS), ("append", APPENDS)):
        for name, case in cases.items():
            if (told := _told(case)) != "Corrupt":
                wrong.append(f"{kind}, {name}: {told}")
    if (told := _told(_continued_by_another())) != "Superseded":
        wrong.append(f"a continuation of somebody else: {told}")
    if (told := _told(_never_closed(), timeout=0.5)) != "Unreachable":
        wrong.append(f"a close that is refused for ever: {told}")
    for follow in (None, True):
        wrong += _signs_of_life(follow)
    if wrong:
        raise AssertionError("; ".join(wrong))
    return f"{len(READS) + len(APPENDS) + 4} lies, none believed"


def _signs_of_life(follow):
    """Bytes are owed, and none come."""
    signs = b"reading from=0 length=9 stale=0\n" + b"data 0 0 00000000\n" * 100_000
    told = _told(_read(signs, **({"follow": True} if follow else {})), timeout=0.05)
    return [] if told == "Unreachable" else [f"signs of life without end (follow: {follow}): {told}"]
