"""The oracle as a manager in another process, which never comes back from a load."""

from __future__ import annotations

import json
import sys
import time

from evictable.specs.oracle import Stream

stream = Stream()
for number, line in enumerate(sys.stdin, 1):
    asked = json.loads(line)
    answer = stream.answer(number, line)
    if asked.get("call") == "prepare_load":
        time.sleep(60)
    print(json.dumps(answer | {"patience": 0.5}), flush=True)
