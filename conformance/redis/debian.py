"""Debian's packages of Redis, fetched by apt from wherever this machine has it from. Nothing is installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

UPSTREAM = "7.0.15"


def run(words, where):
    done = subprocess.run(words, cwd=where, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words[:3]))} … failed:\n{done.stderr.strip()[-800:]}")
    return done.stdout


def source_options(cache):
    """Options with which apt knows the sources of packages, too, in lists of its own."""
    parts, state = cache / "apt/parts", cache / "apt/state"
    for directory in (parts, state / "lists/partial", cache / "apt/cache/archives/partial"):
        directory.mkdir(parents=True, exist_ok=True)
    etc = Path("/etc/apt")
    files = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    for file in files:
        if file.suffix == ".sources":
            text = file.read_text()
            (parts / file.name).write_text(text.replace("Types: deb\n", "Types: deb deb-src\n"))
        elif file.is_file() and file.suffix == ".list":
            lines = [line for line in file.read_text().splitlines() if line.startswith("deb ")]
            both = [line.replace("deb ", kind, 1) for line in lines for kind in ("deb ", "deb-src ")]
            (parts / file.name).write_text("\n".join(both) + "\n")
    settings = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": parts,
        "Dir::State::Lists": state / "lists",
        "Dir::Cache": cache / "apt/cache",
        "APT::Sandbox::User": "root",
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def suite(cache):
    """The directory of Redis' source, with its Tcl suite."""
    source = cache / f"redis-{UPSTREAM}"
    if not (source / "runtest").is_file():
        options = source_options(cache)
        run(["apt-get", *options, "update"], cache)
        run(["apt-get", *options, "source", "--download-only", "redis"], cache)
        archives = list(cache.glob(f"redis_{UPSTREAM}.orig.tar.gz"))
        if not archives:
            sys.exit(f"the source package is not of Redis {UPSTREAM}")
        run(["tar", "-xzf", archives[0]], cache)
    return source


def tools(cache):
    """A directory with redis-cli, redis-benchmark and redis-server, and the environment they need."""
    root = cache / "tools"
    binaries = root / "usr/bin"
    if not (binaries / "redis-server").exists():
        packages = ["redis-tools", "redis-server", "liblzf1", "libjemalloc2"]
        download = cache / "debs"
        download.mkdir(exist_ok=True)
        run(["apt-get", "download", *packages], download)
        for package in download.glob("*.deb"):
            run(["dpkg", "-x", package, root], cache)
    libraries = ":".join(str(path) for path in (root / "usr/lib").glob("*-linux-*"))
    before = os.environ.get("LD_LIBRARY_PATH")
    environment = dict(os.environ, LC_ALL="C")
    environment["LD_LIBRARY_PATH"] = f"{libraries}:{before}" if before else libraries
    return binaries, environment


def need(program, package):
    if shutil.which(program) is None:
        sys.exit(f"{program} is not here: install {package}")
