"""redis-cli, one call for each command. README.md says what is read and printed."""

import json
import os
import subprocess
import time

scenario = json.load(open(os.environ["SCENARIO"]))
nodes = [node.split(":") for node in os.environ["NODES"].split(",")]
cli = os.environ["REDIS_CLI"]


def say(*words):
    print(*words, flush=True)


def call(command):
    """The reply, and what became of the command."""
    host, port = nodes[0]
    words = [cli, "-c", "-e", "-h", host, "-p", port, *command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    # An empty line is a reply that is nothing.
    text = " ".join(line or "nil" for line in done.stdout.removesuffix("\n").split("\n"))
    if done.returncode == 0:
        return "done", text
    if "Could not connect" in done.stderr + done.stdout and "redirect" not in text.lower():
        # It asks one node. A person would ask the next one.
        nodes.append(nodes.pop(0))
        return "refused", "could not connect"
    is_lost = "Server closed" in done.stderr or "Error:" in done.stderr
    return "unknown" if is_lost else "refused", f"{text} {done.stderr.strip()}".replace("\n", " ")


say("version", subprocess.run([cli, "--version"], capture_output=True, text=True).stdout.split()[1])
for command in scenario["prepare"]:
    call(command)
if os.environ.get("CHECKS"):
    for number, command in enumerate(scenario["commands"]):
        if command[0] == "SLEEP":
            time.sleep(int(command[1]) / 1000)
        else:
            say("reply", number, call(command)[1])
    host, port = nodes[0]
    lines = "\n".join(" ".join(command) for command in scenario["pipeline"]) + "\n"
    piped = subprocess.run([cli, "-c", "-h", host, "-p", port], input=lines, capture_output=True, text=True)
    say("piped", " ".join(line for line in piped.stdout.split("\n") if line and not line.startswith("->")))
    found = set()
    for host, port in nodes:
        words = [cli, "-h", host, "-p", port, "--scan", "--pattern", scenario["scan"]]
        found.update(subprocess.run(words, capture_output=True, text=True).stdout.split())
    say("scanned", len(found))
    say("note transactions: a redirect ends the one that it has begun")
say("ready")
end = time.monotonic() + float(os.environ["SECONDS"])
for number, command in enumerate(scenario["operations"]):
    if time.monotonic() > end:
        break
    began = time.monotonic()
    outcome, reply = call(command)
    say("op", number, outcome, round((time.monotonic() - began) * 1000), reply)
    time.sleep(scenario["pause_ms"] / 1000)
say("end")
