"""What a client said is compared with what the cluster holds."""

import socket


class Door:
    """A few words of RESP 2 with whoever leads."""

    def __init__(self, doors):
        self.doors, self.links = doors, {}

    def link(self, door):
        if door not in self.links:
            host, port = door.rsplit(":", 1)
            link = socket.create_connection((host, int(port)), 10)
            self.links[door] = link.makefile("rwb")
        return self.links[door]

    def ask(self, *words):
        door = self.doors[0]
        for _ in range(5):
            link = self.link(door)
            link.write(b"*%d\r\n" % len(words))
            for word in words:
                word = str(word).encode()
                link.write(b"$%d\r\n%s\r\n" % (len(word), word))
            link.flush()
            reply = self.read(link)
            if not isinstance(reply, Exception):
                return reply
            if not str(reply).startswith("MOVED "):
                raise reply
            door = str(reply).split()[2]
        raise RuntimeError("redirected without end")

    def read(self, link):
        line = link.readline().rstrip(b"\r\n").decode()
        kind, rest = line[:1], line[1:]
        if kind == "$":
            return None if rest == "-1" else link.read(int(rest) + 2)[:-2].decode()
        if kind == "*":
            return [self.read(link) for _ in range(int(rest))]
        return {"+": str, ":": int, "-": RuntimeError}[kind](rest)


def ones(words):
    """Libraries make what they like of OK, 1 and true."""
    return ["1" if word == "OK" else word for word in words]


def checks(scenario, said):
    """The sentences about what came out other than expected."""
    wrong = []
    for number, (command, expected) in enumerate(zip(scenario["commands"], scenario["expected"])):
        if command[0] == "SLEEP":
            continue
        got = said.get(f"reply {number}")
        if got is None or ones(got.split()) != ones(expected):
            wrong.append(f"{' '.join(command)}: {got}")
    piped = " ".join(str(number + 1) for number in range(len(scenario["pipeline"])))
    expected = {"piped": [piped], "scanned": [str(scenario["scanned"])], "transaction": ["OK 2", "1 2"], "watched": ["nil"]}
    for what, right in expected.items():
        # What a library does not offer it does not say.
        if what in said and said[what] not in right:
            wrong.append(f"{what}: {said[what][:80]}")
    return wrong


def operations(scenario, outcomes, door):
    """Whether what was answered was done, once, and what was read was there."""
    wrong, lost, twice = [], 0, 0
    by_key = {}
    for number, (outcome, _, reply) in sorted(outcomes.items()):
        command = scenario["operations"][number]
        by_key.setdefault(command[1], []).append((command, outcome, reply))
    for key, steps in by_key.items():
        done = [(command, reply) for command, outcome, reply in steps if outcome == "done"]
        unsure = [command for command, outcome, _ in steps if outcome == "unknown"]
        if key.endswith("count"):
            counts = [int(reply) for _, reply in done]
            if counts != sorted(set(counts)):
                wrong.append(f"{key}: counts that do not grow")
            last = int(door.ask("GET", key) or 0)
            lost += max(0, len(done) - last)
            twice += max(0, last - len(done) - len(unsure))
        elif key.endswith("list"):
            there = door.ask("LRANGE", key, 0, -1)
            tokens = [command[2] for command, _ in done]
            lost += sum(token not in there for token in tokens)
            twice += sum(there.count(token) - 1 for token in set(there))
            refused = {command[2] for command, outcome, _ in steps if outcome == "refused"}
            if refused & set(there):
                wrong.append(f"{key}: what was refused was done")
            places = [there.index(token) for token in tokens if token in there]
            if places != sorted(places):
                wrong.append(f"{key}: not in the order of the commands")
        else:
            may_be, unsure = {"0"}, set()
            for command, outcome, reply in steps:
                if command[0] == "SET":
                    if outcome == "done":
                        may_be = {command[2]}
                    elif outcome == "unknown":
                        unsure.add(command[2])
                elif outcome == "done" and reply not in may_be | unsure:
                    wrong.append(f"{key} was {reply}, not {may_be | unsure}")
            last = door.ask("GET", key)
            lost += last not in may_be | unsure
    return {"wrong": wrong, "lost": lost, "twice": twice}
