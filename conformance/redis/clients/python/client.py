"""redis-py and valkey-py. The argument is the module: redis, or valkey. README.md says what is read and printed."""

import importlib
import json
import os
import sys
import time

library = importlib.import_module(sys.argv[1])
errors = importlib.import_module(f"{sys.argv[1]}.exceptions")
cluster = importlib.import_module(f"{sys.argv[1]}.cluster")
scenario = json.load(open(os.environ["SCENARIO"]))
places = [node.split(":") for node in os.environ["NODES"].split(",")]
Cluster = getattr(cluster, "RedisCluster", None) or getattr(cluster, "ValkeyCluster")
client = Cluster(startup_nodes=[cluster.ClusterNode(host, int(port)) for host, port in places], decode_responses=True)


def say(*words):
    print(*words, flush=True)


def flat(reply):
    """A reply as words."""
    if isinstance(reply, dict):
        reply = [item for pair in reply.items() for item in pair]
    if isinstance(reply, (list, tuple, set)):
        return " ".join(flat(item) for item in reply)
    if isinstance(reply, bool):
        return str(int(reply))
    if isinstance(reply, float) and reply.is_integer():
        return str(int(reply))
    return "nil" if reply is None else str(reply)


def checks():
    for number, command in enumerate(scenario["commands"]):
        if command[0] == "SLEEP":
            time.sleep(int(command[1]) / 1000)
        else:
            say("reply", number, flat(client.execute_command(*command)))
    pipeline = client.pipeline()
    for command in scenario["pipeline"]:
        pipeline.execute_command(*command)
    say("piped", flat(pipeline.execute()))
    key = scenario["transaction"]
    try:
        with client.pipeline(transaction=True) as transaction:
            transaction.set(key, 1).incr(key)
            say("transaction", flat(transaction.execute()))
        with client.pipeline(transaction=True) as transaction:
            transaction.watch(key)
            client.set(key, "meanwhile")
            transaction.multi()
            transaction.set(key, "lost")
            try:
                say("watched", flat(transaction.execute()))
            except errors.WatchError:
                say("watched nil")
    except Exception as error:
        say("note", f"no transaction in a cluster: {error}"[:100])
    say("scanned", len(set(client.scan_iter(match=scenario["scan"], count=20))))


def ask(command):
    try:
        return "done", flat(client.execute_command(*command))
    except errors.ResponseError as error:
        return "refused", f"{type(error).__name__}: {error}"
    except Exception as error:
        refused = str(error).startswith(("CLUSTERDOWN", "TRYAGAIN", "LOADING"))
        return "refused" if refused else "unknown", f"{type(error).__name__}: {error}"


say("version", library.__version__)
for command in scenario["prepare"]:
    client.execute_command(*command)
if os.environ.get("CHECKS"):
    checks()
say("ready")
end = time.monotonic() + float(os.environ["SECONDS"])
for number, command in enumerate(scenario["operations"]):
    if time.monotonic() > end:
        break
    began = time.monotonic()
    outcome, reply = ask(command)
    say("op", number, outcome, round((time.monotonic() - began) * 1000), reply.replace("\n", " "))
    time.sleep(scenario["pause_ms"] / 1000)
say("end")
os._exit(0)
