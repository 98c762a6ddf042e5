"""A client of Logberg in one file, with nothing but Python's standard library.

    import logberg

    client = logberg.Client(["10.0.0.1:7117", "10.0.0.2:7117", "10.0.0.3:7117"])
    with client.append("main", label="nightly") as writer:
        writer.write(b"hello\\n")
        writer.flush()                                   # all written bytes are safe now
    for piece in client.read("main", follow=True):       # ends only on error: nobody closes a whole log
        print(piece)

A writer keeps the bytes that are not acknowledged yet. If its connection or the leader is lost, it looks for the new leader and continues
its own stream where the log has it: no gap and no repeat. A reader goes on at another node in the same way. Every byte that is read, and every
byte that is acknowledged, is compared with the nodes' checksums. That costs time in Python: `checksums=False` leaves it out.

A client may be shared by threads; a writer and a reader each belong to one thread. The protocol is docs/wire.md, "Client lines".
"""

import json
import os
import secrets
import select
import socket
import ssl
import time

__all__ = ["Client", "Writer", "Reader", "Refused", "Unreachable", "Superseded", "Corrupt"]

LINE_BYTES_MAX = 8192
CONNECT_SECONDS_MAX = 2.0
# A node says something each second while it is asked to follow or to wait; a new leader holds an opening for up to 5 s.
SILENCE_SECONDS_MAX = 8.0
AGAIN_AFTER_SECONDS = 0.1
WINDOW_BYTES = 4 << 20
DATA_BYTES_MAX = 4 << 20
# So many bytes are a sign that the rest of what is owed comes too.
BYTES_MIN = 256
# The codes of docs/wire.md after which the same request may succeed, there or elsewhere.
TRY_AGAIN = {"not-leader", "no-quorum", "not-here", "shutting-down", "overloaded", "not-in-force", "too-late"}


class Refused(Exception):
    """A node refused: `code` and `keys` are those of docs/wire.md."""

    def __init__(self, code, keys, sentence):
        super().__init__(f"{code}: {sentence}")
        self.code, self.keys = code, keys


class Unreachable(Exception):
    """No node did what was asked in time."""


class Superseded(Exception):
    """Another writer took over. What was acknowledged stays; the rest is not in the log."""


class Corrupt(Exception):
    """A byte changed on its way, or an answer contradicts what was asked."""


class _Lost(Exception):
    """The connection ended, or was silent for too long."""


def _crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc32c_table()


def crc32c(data, before=0):
    """The checksum of what `before` is of, and of `data` behind it."""
    crc, table = before ^ 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _encoded(text, is_word):
    out = []
    data = str(text).encode()
    for at, byte in enumerate(data):
        last_colon = not is_word and byte == 0x3A and at + 1 == len(data)
        bare = 0x20 < byte < 0x7F and byte != 0x25 and not (is_word and byte == 0x3D) and not last_colon
        out.append(chr(byte) if bare else f"%{byte:02X}")
    return "".join(out)


def _decoded(text):
    parts = text.split("%")
    data = parts[0].encode()
    for part in parts[1:]:
        data += bytes([int(part[:2], 16)]) + part[2:].encode()
    return data.decode()


def _request(verb, words, keys):
    parts = ["logberg/1", verb, *(_encoded(word, True) for word in words)]
    for key, value in keys.items():
        if value is not None:
            parts.append(f"{key}={_encoded(value, False)}")
    line = " ".join(parts).encode() + b"\n"
    if len(line) > LINE_BYTES_MAX:
        raise ValueError("the request is longer than a line may be")
    return line


def _parsed(line):
    """The first word, the other words and the keys of an answer. An `error` is raised."""
    try:
        if line.startswith("error "):
            head, _, sentence = line[6:].partition(": ")
            code, *pairs = head.split(" ")
            raise Refused(code, _keys(pairs), sentence)
        verb, *rest = line.split(" ")
        return verb, [word for word in rest if "=" not in word], _keys(word for word in rest if "=" in word)
    except ValueError as error:
        raise Corrupt(f"an answer that cannot be read: {line!r}") from error


def _keys(pairs):
    keys = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        keys.setdefault(key, _decoded(value))
    return keys


def _number(text):
    try:
        return int(text)
    except (TypeError, ValueError):
        raise Corrupt(f"not a number: {text!r}") from None


_NOT_NOW = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class _Link:
    """A connection, and what came on it that nobody took yet."""

    def __init__(self, server, line, tls=None):
        host, _, port = server.rpartition(":")
        try:
            if server.startswith("unix:"):
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.settimeout(CONNECT_SECONDS_MAX)
                self.socket.connect(server[5:])
            else:
                self.socket = socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS_MAX)
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if tls:
                    # An end without TLS' own word for it is a connection that broke.
                    self.socket = tls.wrap_socket(self.socket, server_hostname=host.strip("[]"), suppress_ragged_eofs=False)
        except (OSError, ValueError) as error:
            raise _Lost(f"{server}: {error}") from None
        self.socket.settimeout(SILENCE_SECONDS_MAX)
        self.server, self.came = server, bytearray()
        self.owed()
        try:
            self.socket.sendall(line)
        except OSError as error:
            self.close()
            raise _Lost(f"{server}: {error}") from None

    def close(self):
        self.socket.close()

    def owed(self):
        """From now on the other side has its time for what it owes, or for the next bytes of that: drop by drop is silence."""
        self.waited, self.came_since = 0.0, 0

    def more(self):
        began = time.monotonic()
        try:
            piece = self.socket.recv(256 << 10)
            # What TLS has taken from the socket already wakes no select.
            while piece and isinstance(self.socket, ssl.SSLSocket) and self.socket.pending():
                piece += self.socket.recv(self.socket.pending())
        except _NOT_NOW:
            return False
        except OSError as error:
            raise _Lost(f"{self.server}: {error}") from None
        if not piece:
            raise _Lost(f"{self.server}: the connection ended")
        self.came += piece
        self.waited, self.came_since = self.waited + time.monotonic() - began, self.came_since + len(piece)
        if self.came_since >= BYTES_MIN:
            self.owed()
        elif self.waited > SILENCE_SECONDS_MAX:
            raise _Lost(f"{self.server}: an answer that comes drop by drop")
        return True

    def line_that_came(self, bytes_max=LINE_BYTES_MAX):
        end = self.came.find(b"\n")
        if end < 0:
            if bytes_max and len(self.came) > bytes_max:
                raise Corrupt(f"{self.server}: a line without an end")
            return None
        line = bytes(self.came[:end]).decode(errors="replace")
        del self.came[: end + 1]
        return line

    def line(self, bytes_max=LINE_BYTES_MAX):
        self.owed()
        while (line := self.line_that_came(bytes_max)) is None:
            self.more()
        return line

    def take(self, count):
        while len(self.came) < count:
            self.more()
        taken = bytes(self.came[:count])
        del self.came[:count]
        return taken


class _Search:
    """Which node to ask next, until nothing has got on for `seconds`."""

    def __init__(self, servers, seconds):
        self.servers, self.seconds = list(servers), seconds
        self.hint = None
        self.got_on()

    def got_on(self):
        self.until = time.monotonic() + self.seconds
        self.said = "nothing was asked"

    def next(self):
        if self.hint:
            server, self.hint = self.hint, None
            return server
        self.servers.append(self.servers.pop(0))
        return self.servers[-1]

    def failed(self, error):
        """Says whom to ask next, after a rest; raises what asking again cannot mend."""
        if isinstance(error, Refused):
            if error.code not in TRY_AGAIN:
                raise error
            self.hint = error.keys.get("leader")
        self.said = str(error)
        if time.monotonic() >= self.until:
            raise Unreachable(f"not done within {self.seconds} s, last: {self.said}") from error
        time.sleep(AGAIN_AFTER_SECONDS)


class Client:
    """A cluster, by the addresses of some of its nodes. `timeout` is how many seconds may pass in which nothing gets on.

    `token` is shown on each connection, as `logberg token create` printed it; else the one in the environment's LOGBERG_TOKEN, if any.
    It goes over the network as it is, unless `ca` is said: a file with the authority of the nodes' certificates. Then connections are by
    TLS and by nothing else; `cert` and `key` are files with a client's certificate and its key, which is shown there.
    """

    def __init__(self, servers, timeout=30.0, checksums=True, token=None, ca=None, cert=None, key=None):
        self.servers = [servers] if isinstance(servers, str) else list(servers)
        if not self.servers:
            raise ValueError("name at least one server, as HOST:PORT or unix:PATH")
        self.timeout, self.checksums = timeout, checksums
        token = (os.environ.get("LOGBERG_TOKEN", "") if token is None else token).strip()
        if not all("!" <= letter <= "~" for letter in token):
            raise ValueError("a token is one word of printable ASCII, as `logberg token create` prints it")
        if cert and not ca:
            raise ValueError("a certificate is shown by TLS alone: say ca, too, a file with the authority of the nodes")
        self._files = (ca, cert, key)
        self._tls()
        self._shown = f"logberg/1 auth {token}\n".encode() if token else b""

    def _tls(self):
        """By the files of this moment: a renewed certificate is shown by the next connection."""
        ca, cert, key = self._files
        if not ca:
            return None
        try:
            tls = ssl.create_default_context(cafile=ca)
        except ssl.SSLError:
            raise ValueError(f"{ca} holds no certificate: `ca` is a file with the authority of the nodes, as PEM") from None
        tls.minimum_version = ssl.TLSVersion.TLSv1_3
        if cert:
            try:
                tls.load_cert_chain(cert, key)
            except ssl.SSLError:
                raise ValueError(f"{cert} and {key} are no certificate and the key that fits it, as PEM") from None
        return tls

    def _link(self, server, verb, words, keys):
        return _Link(server, self._shown + _request(verb, words, keys), self._tls())

    def _ask(self, verb, *words, **keys):
        search = _Search(self.servers, self.timeout)
        while True:
            link = None
            try:
                link = self._link(search.next(), verb, words, keys)
                answer = link.line(bytes_max=None)
                if not answer.startswith("ok"):
                    return _parsed(answer)
                try:
                    return json.loads(answer[3:])
                except ValueError:
                    raise Corrupt(f"an answer that is not JSON: {answer[:200]!r}") from None
            except (_Lost, Refused) as error:
                search.failed(error)
            finally:
                if link:
                    link.close()

    def status(self):
        """What one node knows of the cluster."""
        return self._ask("status")

    def logs(self):
        return self._ask("logs")

    def streams(self, log):
        """The streams of a log, in the order of opening. Lengths count a stream's own bytes."""
        return self._ask("streams", log)

    def create_log(self, name, retention=None, members=None, auxiliary=None):
        def listed(ids):
            return ",".join(str(one) for one in ids) if ids else None

        return self._ask("create-log", name, retention=retention, members=listed(members), auxiliary=listed(auxiliary))

    def show_log(self, name):
        return self._ask("show-log", name)

    def delete_log(self, name):
        return self._ask("delete-log", name)

    def retain(self, log, retention):
        """`10GiB`, `7d`, `10GiB,7d` or `forever`."""
        return self._ask("retain", log, retention=retention)

    def trim(self, log, before, plan=True):
        """Deletes what stands before a place: `@BYTES`, `STREAM`, `STREAM@BYTES` or `slot:N`. Only `plan=False` does it."""
        return self._ask("trim", log, before=before, plan=1 if plan else None)

    def move_leader(self, log, to=None):
        return self._ask("lead", log, to=to)

    def append(self, log, label=None, mode="refuse"):
        """A new stream. `mode` says what happens while the log has another writer: `refuse`, `wait` or `takeover`."""
        return Writer(self, log, label, mode)

    def read(self, log, stream=None, start=0, end=None, follow=False, stale=False):
        """Pieces of bytes, from position `start` of the chain that begins with `stream`, or of all that the log has."""
        return Reader(self, log, stream, start, end, follow, stale)


class Reader:
    """An iterator over pieces of bytes. `position` is where the next one begins; `end` says at last how it ended.

    `end` is `closed`, `cut` (the writer vanished or another took over), `open` (all that is chosen so far) or `to`.
    """

    def __init__(self, client, log, stream, start, end, follow, stale):
        self.client, self.log, self.position, self.end = client, log, start, None
        self._keys = {"stream": stream, "to": end, "follow": 1 if follow else None, "stale": 1 if stale else None}
        self._search, self._link = _Search(client.servers, client.timeout), None

    def __iter__(self):
        return self

    def __next__(self):
        while self.end is None:
            try:
                if self._link is None:
                    self._open()
                piece = self._piece()
                # A follower that has all that was known chosen is owed nothing. Another reader is owed bytes, and a sign of life is no byte.
                if piece or self.end or (self._keys["follow"] and self.position >= self._length):
                    self._search.got_on()
                elif time.monotonic() >= self._search.until:
                    raise _Lost(f"{self._link.server}: signs of life, and no bytes")
                if piece:
                    return piece
            except (_Lost, Refused) as error:
                self.close()
                self._search.failed(error)
        self.close()
        raise StopIteration

    def close(self):
        if self._link:
            self._link.close()
            self._link = None

    def _open(self):
        keys = {**self._keys, "from": self.position, "format": "framed"}
        self._link = self.client._link(self._search.next(), "read", [self.log], keys)
        verb, _, said = _parsed(self._link.line())
        if verb != "reading" or _number(said.get("from")) != self.position:
            raise Corrupt(f"the read was to begin at {self.position}, and the node says {verb} {said}")
        if said.get("stale") not in ("0", "1"):
            raise Corrupt(f"an answer that does not say whether it is stale: {said}")
        if said["stale"] == "1" and not self._keys["stale"]:
            raise Corrupt("a stale answer to a read that was not to be stale")
        self._length = _number(said.get("length"))

    def _piece(self):
        verb, words, _ = _parsed(self._link.line())
        if len(words) < 2 or _number(words[0]) != self.position:
            raise Corrupt(f"behind position {self.position} came {verb} {words}")
        to = self._keys["to"]
        if verb == "end":
            self._check_end(words[1], to)
            self.end = words[1]
            return None
        count = _number(words[1])
        if to is not None and self.position + count > to:
            raise Corrupt(f"{count} bytes at {self.position}, past the end that was asked for, {to}")
        if verb != "data" or len(words) != 3 or not 0 <= count <= DATA_BYTES_MAX:
            raise Corrupt(f"behind position {self.position} came {verb} {words}")
        piece = self._link.take(count)
        if self.client.checksums and f"{crc32c(piece):08x}" != words[2]:
            raise Corrupt(f"the {count} bytes at {self.position} have another checksum")
        self.position += count
        return piece

    def _check_end(self, how, to):
        """An end before the bytes that were known to be there is none."""
        every = self._length if to is None else min(to, self._length)
        is_one = how in ("closed", "cut", "open", "to") and self.position >= every
        if how == "to":
            is_one &= self.position == to
        if how == "open":
            is_one &= not (self._keys["follow"] and to is None)
        if not is_one:
            raise Corrupt(f"an end at {self.position} ({how}) of {self._length} bytes")


class Writer:
    """One stream, continued through lost connections and leaders.

    stream    the name of the newest part of the chain; the first part's name reads all of it
    acked     bytes of the chain that are safe
    written   bytes that were given to `write`; acked <= written
    """

    def __init__(self, client, log, label, mode):
        self.client, self.log, self.stream, self.first = client, log, None, None
        self.acked, self.closed = 0, False
        self._label, self._mode = label, mode
        # The token by which a node knows our own stream again if the answer to its opening was lost.
        self._token = secrets.token_hex(16)
        self._kept = bytearray()  # written and not acknowledged
        self._sent = 0  # bytes of _kept that this connection was given
        self._at = 0  # position in `stream` of the first kept byte
        self._crc = 0  # of the stream's bytes below _at
        self._lost_an_answer = False
        # Taken for an opening of our own whose answer was lost: such a one is empty.
        self._guessed = False
        self._search, self._link = _Search(client.servers, client.timeout), None
        understood = client.status().get("understands") or []
        self._token_known, self._sums_known = "token" in understood, "checked" in understood
        self._until(lambda: self._link is not None)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()
        else:
            self.abandon()

    @property
    def written(self):
        return self.acked + len(self._kept)

    def write(self, data):
        """Takes all of `data`. Returns once at most 4 MiB are not acknowledged."""
        view = memoryview(data).cast("B")
        if not self._kept:
            self._heard_at = time.monotonic()
        for at in range(0, len(view), WINDOW_BYTES):
            self._kept += view[at : at + WINDOW_BYTES]
            self._until(lambda: len(self._kept) <= WINDOW_BYTES and (self._sent == len(self._kept) or not self._writable()))

    def flush(self):
        """Returns once every byte that was written is on the disks of a majority."""
        self._until(lambda: not self._kept)

    def close(self):
        """Flushes, and ends the stream for good: readers who follow it hear `closed`."""
        if self.closed:
            return
        self.flush()
        until = time.monotonic() + self.client.timeout
        while not self._closes():
            # A change of leader cut the stream before it was closed, which does not happen again and again.
            if time.monotonic() >= until:
                raise Unreachable(f"not closed within {self.client.timeout} s, though all of it is acknowledged")
            time.sleep(AGAIN_AFTER_SECONDS)
            self.flush()
        self.closed = True
        self.abandon()

    def abandon(self):
        """Ends the connection and leaves the stream as a vanished writer does: it is cut 10 s later."""
        if self._link:
            self._link.close()
            self._link = None

    def _closes(self):
        """Whether the stream is closed at its end; else a change of leader cut it, and a continuation is to be closed."""
        try:
            verb, words, _ = self.client._ask("close", self.log, stream=self.stream, at=self._at)
        except Refused as error:
            if error.code == "superseded" and "stream" not in error.keys:
                self.abandon()
                self._until(lambda: self._link is not None)
                return False
            if error.code in ("superseded", "continues"):
                raise Superseded(str(error)) from error
            raise
        if verb != "closed" or words[:1] != [str(self._at)]:
            raise Corrupt(f"closed at {self._at}, and the node says {verb} {words}")
        return True

    def _writable(self):
        return bool(self._link and select.select([], [self._link.socket], [], 0)[1])

    def _until(self, done):
        """Sends, hears and reconnects until `done`."""
        while True:
            try:
                if self._link is None:
                    self._open()
                self._hear_what_came()
                self._send()
                if done():
                    return
                self._wait()
            except _Lost as error:
                self.abandon()
                self._search.failed(error)
            except Refused as error:
                self.abandon()
                if error.code == "superseded":
                    if "stream" in error.keys:
                        raise Superseded(str(error)) from error
                    # A change of leader cut the stream off, and it can be continued.
                    self._search.failed(_Lost(str(error)))
                    continue
                self._lost_an_answer |= "stream" in error.keys or error.code in ("no-quorum", "shutting-down")
                self._search.failed(error)

    def _open(self):
        keys = {"label": self._label, "mode": self._mode, "checked": 1 if self._sums_known and self.client.checksums else None}
        if self.stream is not None:
            keys["continues"] = f"{self.stream}@{self._at}"
        elif self._token_known:
            keys["token"] = self._token
        link = self.client._link(self._search.next(), "append", [self.log], keys)
        try:
            while True:
                verb, words, said = _parsed(link.line())
                if verb == "stream" and words:
                    break
                if verb != "waiting" or self._mode != "wait":
                    raise Corrupt(f"an append was opened, and the node says {verb}")
                self._search.got_on()
        except Refused as error:
            link.close()
            if error.code != "continues" or self.stream is None:
                raise
            self._learn(error)
            raise _Lost("the stream is longer than was known") from error
        except _Lost:
            self._lost_an_answer = True
            link.close()
            raise
        self._opened(link, words[0], said)

    def _opened(self, link, name, said):
        if self.first is None:
            self.first = name
            base = _number(said.get("at"))
            if base != 0:
                raise Corrupt(f"a new stream begins at {base}")
        elif _number(said.get("at")) != self.acked:
            raise Corrupt(f"the chain has {self.acked} acknowledged bytes, and goes on at {said.get('at')}")
        self.stream, self._at, self._sent, self._crc = name, 0, 0, 0
        self._lost_an_answer = self._guessed = False
        link.socket.setblocking(False)
        self._link, self._heard_at = link, time.monotonic()
        self._search.got_on()

    def _learn(self, refusal):
        """The stream is longer than was known, or goes on in an opening of ours whose answer was lost."""
        length = _number(refusal.keys.get("length"))
        if self._guessed and length != 0:
            raise Superseded(f"another writer continued the stream as {self.stream}")
        self._acknowledged(length)
        by = refusal.keys.get("by")
        if by is None:
            return
        if not self._lost_an_answer:
            raise Superseded(f"another writer continued the stream as {by}")
        # Ours if it is empty: no byte is sent before its name was read. If it is longer, it is somebody else's.
        self.stream, self._at, self._crc, self._lost_an_answer, self._guessed = by, 0, 0, False, True

    def _hear_what_came(self):
        while (line := self._link.line_that_came()) is not None:
            verb, words, said = _parsed(line)
            if verb != "ack":
                raise Corrupt(f"while appending the node says {line!r}")
            self._acknowledged(_number(words[0] if words else None), said.get("crc32c"))
            self._heard_at = time.monotonic()
            self._search.got_on()

    def _acknowledged(self, position, crc=None):
        count = position - self._at
        if not 0 <= count <= len(self._kept):
            raise Corrupt(f"of {self._at} to {self._at + len(self._kept)} the node has {position}")
        if self._sums_known and self.client.checksums:
            self._crc = crc32c(memoryview(self._kept)[:count].tobytes(), self._crc)
            if crc is not None and crc != f"{self._crc:08x}":
                raise Corrupt(f"the stream's first {position} bytes changed on their way to the log")
        del self._kept[:count]
        self._at, self.acked, self._sent = position, self.acked + count, max(0, self._sent - count)

    def _send(self):
        while self._sent < len(self._kept):
            try:
                self._sent += self._link.socket.send(bytes(self._kept[self._sent : self._sent + (256 << 10)]))
            except _NOT_NOW:
                return
            except OSError as error:
                # What a leader said before it ended the connection counts: it may be `superseded`.
                self._hear_the_rest()
                raise _Lost(f"{self._link.server}: {error}") from None

    def _hear_the_rest(self):
        try:
            while self._link.more():
                self._hear_what_came()
        except _Lost:
            self._hear_what_came()

    def _wait(self):
        writes = [self._link.socket] if self._sent < len(self._kept) else []
        ready = select.select([self._link.socket], writes, [], 0.5)
        if ready[0]:
            try:
                self._link.more()
            except _Lost:
                self._hear_what_came()
                raise
        elif self._kept and time.monotonic() - self._heard_at > SILENCE_SECONDS_MAX:
            raise _Lost(f"{self._link.server}: no acknowledgement for {SILENCE_SECONDS_MAX} s")

