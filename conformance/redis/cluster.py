"""Three nodes on this machine, for as long as a run takes. Nothing is ended that was not started here."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def program_of(given):
    """The program under test: as given, or the last one that was built here."""
    candidates = [given] if given else [ROOT / "target/release/logberg", ROOT / "target/debug/logberg"]
    for candidate in candidates:
        if Path(candidate).is_file():
            return str(Path(candidate).resolve())
    sys.exit("no program: build one with `cargo build --release`, or say where it is with --program")


def cache_of(given):
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(given or Path(base) / "logberg-conformance").resolve()
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


NODES = (1, 2, 3)


class Cluster:
    """Nodes 1 to 3, with one door each."""

    def __init__(self, program, groups, world=None):
        self.program, self.groups, self.world = program, groups, world
        self.directory = Path(tempfile.mkdtemp(prefix="logberg-conformance-"))
        if world:
            self.servers = [f"{world.address(node)}:7117" for node in NODES]
            self.doors = [f"{world.address(node)}:7379" for node in NODES]
        else:
            ports = free_ports(6)
            self.servers = [f"127.0.0.1:{port}" for port in ports[:3]]
            self.doors = [f"127.0.0.1:{port}" for port in ports[3:]]
        self.nodes = {}
        try:
            for node in NODES:
                self.start(node)
                self.wait_ready(node)
            self.ask("kv", "init", "--groups", str(groups))
            self.wait_led()
        except BaseException:
            self.end()
            raise

    def start(self, node):
        at = node - 1
        words = [self.program, "node", "--data", str(self.directory / f"node-{node}")]
        words += ["--listen", self.servers[at], "--kv", self.doors[at]]
        words += ["--bootstrap"] if node == 1 else ["--join", self.servers[0]]
        words = self.world.within(node, words) if self.world else words
        log = open(self.directory / f"node-{node}.log", "ab")
        self.nodes[node] = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def ask(self, *words, timeout=30):
        servers = ",".join(self.servers)
        words = [self.program, *words, "--json", "--server", servers]
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout)
        told = json.loads(done.stdout) if done.stdout.strip() else None
        # A status with something to be done ends with another code, and is an answer.
        if done.returncode != 0 and not (told and "groups" in told):
            raise RuntimeError(f"{' '.join(words[1:4])}: {done.stderr.strip() or done.stdout.strip()}")
        return told

    def wait_ready(self, node):
        """Until this node answers."""
        words = [self.program, "status", "--json", "--server", self.servers[node - 1]]
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if self.nodes[node].poll() is not None:
                raise RuntimeError(f"node {node} ended: see {self.directory}/node-{node}.log")
            if subprocess.run(words, capture_output=True, timeout=30).returncode in (0, 8):
                return
            time.sleep(0.1)
        raise RuntimeError(f"node {node} does not answer")

    def leaders(self):
        """By group: the node that leads it."""
        return {group["name"]: group["leader"] for group in self.ask("kv", "status")["groups"]}

    def wait_led(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            leaders = self.leaders()
            if len(leaders) == self.groups and all(leaders.values()):
                return
            time.sleep(0.1)
        raise RuntimeError("nobody leads some group")

    def door_of(self, node):
        return self.doors[node - 1]

    def kill(self, node):
        self.nodes[node].send_signal(signal.SIGKILL)
        self.nodes[node].wait()

    def stop(self, node):
        self.nodes[node].send_signal(signal.SIGSTOP)

    def resume(self, node):
        self.nodes[node].send_signal(signal.SIGCONT)

    def end(self):
        for node in self.nodes.values():
            if node.poll() is None:
                node.send_signal(signal.SIGCONT)
                node.send_signal(signal.SIGTERM)
        for node in self.nodes.values():
            try:
                node.wait(10)
            except subprocess.TimeoutExpired:
                node.kill()
                node.wait()
        if not os.environ.get("LOGBERG_CONFORMANCE_KEEP"):
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
