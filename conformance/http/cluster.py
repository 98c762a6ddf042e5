"""Real nodes with HTTP doors, on this machine."""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LONG_POLL_MS = 500
READY_SECONDS_MAX = 60


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


class Cluster:
    """Nodes on this machine, in a directory that goes with them."""

    def __init__(self, program, nodes, secure=False):
        """`secure`: by TLS alone, and with tokens asked for."""
        self.program = program
        self.directory = Path(tempfile.mkdtemp(prefix="logberg-http-"))
        self.ca = self.directory / "certs" / "ca.crt" if secure else None
        self.token, self.trust = None, None
        if secure:
            self.run("certs", "init", "--dir", self.ca.parent)
            self.trust = ssl.create_default_context(cafile=self.ca)
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(nodes)]
        self.doors = [f"127.0.0.1:{free_port()}" for _ in range(nodes)]
        self.processes = [self.start(at) for at in range(nodes)]

    def run(self, *words):
        return subprocess.run([self.program, *words], check=True, capture_output=True, text=True).stdout.strip()

    def ask_for_tokens(self):
        """From now on nobody is served without one; `token` may do all."""
        server = ("--server", f"unix:{self.directory}/node-1/admin.sock", "--ca", self.ca)
        self.token = self.run(*server, "token", "create", "suite", "--allow", "all on *")
        self.run(*server, "auth", "enable", "--wait")

    def start(self, at):
        begin = ["--bootstrap", "--voters", str(len(self.addresses))] if at == 0 else ["--join", self.addresses[0]]
        log = open(self.directory / f"node-{at + 1}.log", "ab")
        words = [self.program, "node", "--data", self.directory / f"node-{at + 1}", "--listen", self.addresses[at]]
        words += ["--http", self.doors[at], "--http-long-poll", str(LONG_POLL_MS / 1000), *begin]
        if self.ca:
            name = f"n{at + 1}"
            if not (self.ca.parent / name).is_dir():
                self.run("certs", "node", name, "--host", "127.0.0.1,localhost", "--dir", self.ca.parent)
            words += ["--tls", "require", "--tls-dir", self.ca.parent / name]
        return subprocess.Popen(words, stderr=log, stdout=log)

    def kill(self, at):
        """As if its machine lost power, as far as processes go."""
        self.processes[at].kill()
        self.processes[at].wait()

    def restart(self, at):
        self.processes[at] = self.start(at)

    def pause(self, at):
        self.processes[at].send_signal(signal.SIGSTOP)

    def go_on(self, at):
        self.processes[at].send_signal(signal.SIGCONT)

    def ask(self, *words):
        shown = ["--ca", self.ca] if self.ca else []
        words = [self.program, "--server", ",".join(self.addresses), *shown, "--json", *words]
        environment = {**os.environ, "LOGBERG_TOKEN": self.token or ""}
        return subprocess.run(words, capture_output=True, text=True, timeout=30, env=environment)

    def wait(self):
        """Until every door answers about a stream that was made through the first."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                self.request(0, "PUT", "/v1/stream/ready")
                for at in range(len(self.doors)):
                    self.request(at, "HEAD", "/v1/stream/ready")
                return
            except (OSError, urllib.error.URLError):
                time.sleep(0.2)
        raise SystemExit(f"no cluster came about within {READY_SECONDS_MAX} s: see {self.directory}")

    def request(self, at, method, path):
        scheme = "https" if self.ca else "http"
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        request = urllib.request.Request(f"{scheme}://{self.doors[at]}{path}", method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=5, context=self.trust) as response:
            return response.status

    def leader(self):
        """The number of the node that leads the space, or None."""
        try:
            status = json.loads(self.ask("status").stdout)
        except (ValueError, subprocess.TimeoutExpired):
            return None
        for log in status["logs"]:
            if log["name"] == "default":
                return log.get("leader")
        return None

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def program_of(chosen):
    """The program that is to be tried: the one that is named, or what cargo built."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    program = Path(chosen or target / "debug" / "logberg").resolve()
    if not program.is_file():
        raise SystemExit(f"{program} is not there: build it with `cargo build -p cli`, or name one with --program")
    return program


def have_packages():
    """What package-lock.json names, from npm, once."""
    if not (HERE / "node_modules" / "@durable-streams" / "client").is_dir():
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=HERE, check=True)
