"""Search policies in a release's manager, in a process of its own: ``python play_hosted.py VERSION CALLS POLICY...``

Prints, as JSON, the verdict on each.
"""

from __future__ import annotations

import json
import sys

from evictable.specs import subjects
from evictable.specs.search import RANDOM, Search, Task
from evictable.specs.subjects.base import Setup

version, calls, *names = sys.argv[1:]
verdicts = {}
for name in names:
    search = Search(Task(subjects.load(subjects.hosted(name, f"vllm=={version}")), Setup(3), "any", "contract"))
    search.run((RANDOM,), int(calls), None)
    verdicts[name] = search.verdict
print(json.dumps(verdicts))
