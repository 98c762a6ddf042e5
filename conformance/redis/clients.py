"""The clients: how each is fetched, with the package manager of its language, and how it is started."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import debian

HERE = Path(__file__).resolve().parent / "clients"


class Missing(Exception):
    """A client cannot be had here."""


def run(words, where, environment=None):
    if shutil.which(str(words[0])) is None:
        raise Missing(f"{words[0]} is not installed")
    done = subprocess.run(words, cwd=where, env=environment, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-400:]
        raise Missing(f"{' '.join(map(str, words[:3]))}: {said}")


def copied(cache, language):
    """Its sources in the cache, so that nothing is built where they are."""
    place = cache / language
    shutil.copytree(HERE / language, place, dirs_exist_ok=True)
    return place


def python(package, module):
    def prepare(cache):
        place = cache / f"python-{package.replace('==', '-')}"
        if not (place / "bin/python").exists():
            run([sys.executable, "-m", "venv", place], cache)
        run([place / "bin/pip", "-q", "--disable-pip-version-check", "install", package], cache)
        return [place / "bin/python", HERE / "python/client.py", module], {}

    return prepare


def node(name):
    def prepare(cache):
        place = copied(cache, "node")
        run(["npm", "install", "--silent", "--no-audit", "--no-fund"], place)
        return ["node", place / "client.js", name], {}

    return prepare


def go(name):
    def prepare(cache):
        place = copied(cache, "go")
        run(["go", "mod", "tidy"], place)
        run(["go", "build", "-o", "client", "."], place)
        return [place / "client", name], {}

    return prepare


def java(name, version):
    def prepare(cache):
        place = copied(cache, "java")
        if not (place / "lib").exists():
            run(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"], place)
        run(["javac", "-nowarn", "-cp", "lib/*", "-d", "out", "Conformance.java"], place)
        return ["java", "-cp", f"{place}/out:{place}/lib/*", "Conformance", name, version], {}

    return prepare


def rust(cache):
    place = copied(cache, "rust")
    run(["cargo", "build", "--quiet"], place, dict(os.environ, CARGO_TARGET_DIR=str(place / "target")))
    return [place / "target/debug/conformance"], {}


def redis_cli(cache):
    binaries, environment = debian.tools(cache)
    environment = {"REDIS_CLI": str(binaries / "redis-cli"), "LD_LIBRARY_PATH": environment["LD_LIBRARY_PATH"]}
    return [sys.executable, HERE / "tools/redis_cli.py"], environment


CLIENTS = {
    "redis-py-5": python("redis==5.2.1", "redis"),
    "redis-py-8": python("redis==8.1.0", "redis"),
    "valkey-py": python("valkey==6.2.0", "valkey"),
    "go-redis": go("go-redis"),
    "rueidis": go("rueidis"),
    "ioredis": node("ioredis"),
    "node-redis": node("node-redis"),
    "jedis": java("jedis", "8.0.2"),
    "lettuce": java("lettuce", "7.7.0"),
    "redis-rs": rust,
    "redis-cli": redis_cli,
}
