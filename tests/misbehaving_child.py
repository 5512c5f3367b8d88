"""A manager in another process that misbehaves: `python misbehaving_child.py WAY`. It stores nothing, ever.

The way is what becomes of the first line (`no-...`), or of a lookup of key 7.
"""

from __future__ import annotations

import json
import os
import sys
import time

HELLO = {"evictable_stdio": 1, "name": "child", "patience": 0.3}


def say(record: object) -> None:
    print(json.dumps(record), flush=True)


def begin(way: str, begun: bool) -> None:
    if way == "no-start":
        sys.exit("RuntimeError: no such file")
    elif way == "no-greeting":
        print("ready!", flush=True)
    elif way == "no-version":
        say({"name": "child"})
    elif way == "no-such-version":
        say({"evictable_stdio": 2})
    elif way == "no-patience":
        say({**HELLO, "patience": 3600})
    elif way == "no-policy":
        say({"error": "there is\nno policy"})
    elif way == "no-second" and begun:
        sys.exit(0)
    elif way == "no-answer":
        time.sleep(60)
    else:
        say({**HELLO, "state": {"ref_cnt": {}}} if way == "stateless" else HELLO)


def misbehave(way: str) -> None:
    if way == "crash":
        sys.exit("Traceback\nIndexError: pop from empty list")
    elif way == "kill":
        os.kill(os.getpid(), 9)
    elif way == "hang":
        time.sleep(60)
    elif way == "garbage":
        print("looking up 7", flush=True)
    elif way == "empty":
        say({})
    elif way == "wrong":
        say({"returns": "MAYBE"})
    elif way == "twice":
        print('{"returns": "MISS"}\n{"returns": "MISS"}', flush=True)
    elif way == "raise":
        say({"raises": "KeyError", "message": "7"})
    elif way == "noisy":
        print("x" * 200_000, file=sys.stderr, flush=True)
        say({"returns": "MISS"})
    else:
        say({"returns": "MISS"})


begun = False
for line in sys.stdin:
    asked = json.loads(line)
    if "evictable_trace" in asked:
        begin(sys.argv[1], begun)
        begun = True
    elif asked["call"] == "lookup" and asked["keys"] == [7]:
        misbehave(sys.argv[1])
    else:
        say({"returns": {"lookup": "MISS", "take_events": [], "get_stats": {}}.get(asked["call"])})
