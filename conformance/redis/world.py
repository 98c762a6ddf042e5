"""A network of its own for the nodes: each in a namespace, all on a bridge. What passes between nodes can be cut there, while clients, which
are outside, still reach each of them. Needs root and `ip`; all of it goes when the run ends."""

import os
import shutil
import subprocess

NODES = (1, 2, 3)


def why_not():
    """Why there can be none here; None if there can."""
    if os.geteuid() != 0:
        return "only root makes namespaces"
    return None if shutil.which("ip") else "there is no `ip` (Debian's iproute2)"


class World:
    def __init__(self):
        self.tag = f"{os.getpid() % 100000}"
        # A private network of this run's own, so that two runs do not meet.
        self.net = f"10.{200 + os.getpid() // 250 % 50}.{os.getpid() % 250}"
        self.bridge = f"lgb{self.tag}"
        try:
            self.ip("link", "add", self.bridge, "type", "bridge")
            self.ip("address", "add", f"{self.net}.254/24", "dev", self.bridge)
            self.ip("link", "set", self.bridge, "up")
            for node in NODES:
                inside, outside, space = f"in{self.tag}-{node}", f"ou{self.tag}-{node}", self.space(node)
                self.ip("netns", "add", space)
                self.ip("link", "add", outside, "type", "veth", "peer", "name", inside)
                self.ip("link", "set", inside, "netns", space)
                self.ip("link", "set", outside, "master", self.bridge, "up")
                self.ip("-n", space, "link", "set", "lo", "up")
                self.ip("-n", space, "address", "add", f"{self.address(node)}/24", "dev", inside)
                self.ip("-n", space, "link", "set", inside, "up")
        except BaseException:
            self.end()
            raise

    def space(self, node):
        return f"lgb{self.tag}-{node}"

    def address(self, node):
        return f"{self.net}.{node}"

    def within(self, node, words):
        return ["ip", "netns", "exec", self.space(node), *words]

    def cut_off(self, node):
        """Nothing passes between this node and the others any more, in either direction, and nobody is told."""
        self.route("add", node)

    def heal(self, node):
        self.route("del", node)

    def route(self, verb, node):
        for other in NODES:
            if other != node:
                self.ip("-n", self.space(node), "route", verb, "blackhole", f"{self.address(other)}/32")
                self.ip("-n", self.space(other), "route", verb, "blackhole", f"{self.address(node)}/32")

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True, stdin=subprocess.DEVNULL, capture_output=True)

    def end(self):
        quiet = {"stdin": subprocess.DEVNULL, "capture_output": True}
        for node in NODES:
            subprocess.run(["ip", "netns", "delete", self.space(node)], **quiet)
        subprocess.run(["ip", "link", "delete", self.bridge], **quiet)
