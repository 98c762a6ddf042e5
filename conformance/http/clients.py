"""The PyPI client: writes messages with a producer's headers, or reads all of two writers, through whatever happens to the nodes.

clients.py write URL COUNT
clients.py read URL COUNT sse|long-poll     prints each message on a line of its own
"""

import sys
import time

from durable_streams import DurableStream, stream

JSON = "application/json"
TIMEOUT = 5.0


def write(url, count):
    number = 0
    headers = {"Producer-Id": "pypi", "Producer-Epoch": "0", "Producer-Seq": lambda: str(number)}
    handle = DurableStream(url, content_type=JSON, headers=headers, timeout=TIMEOUT, batching=False)
    while number < count:
        try:
            handle.append({"by": "pypi", "number": number})
        except Exception as error:  # A node that is away, or does not know: the number makes it safe to ask again.
            print(f"again {number}: {type(error).__name__}", file=sys.stderr)
            time.sleep(0.05)
            continue
        number += 1


def read(url, count, live):
    offset, left = "-1", 2 * count
    while left > 0:
        try:
            with stream(url, offset=offset, live=live, timeout=TIMEOUT) as response:
                for batch in response.iter_json_batches():
                    for item in batch:
                        print(item["by"], item["number"])
                    left -= len(batch)
                    offset = response.offset
                    if left <= 0:
                        break
        except Exception as error:
            print(f"read again from {offset}: {type(error).__name__}", file=sys.stderr)
            time.sleep(0.1)


mode, url, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
if mode == "write":
    write(url, count)
else:
    read(url, count, sys.argv[4])
