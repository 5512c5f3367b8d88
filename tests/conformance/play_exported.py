"""Run exported tests on a published release, in a process of its own: ``python play_exported.py VERSION FILE...``

Prints, as JSON, how each came out: ``passed``, or what its failure says first.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

from evictable.specs.subjects import releases, standins

standins.load(releases.fetch(sys.argv[1], print))
outcomes = {}
for path in map(Path, sys.argv[2:]):
    names = runpy.run_path(str(path))
    (test,) = (value for name, value in names.items() if name.startswith("test_"))
    try:
        test()
        outcomes[path.name] = "passed"
    except AssertionError as error:
        outcomes[path.name] = "law" if str(error).startswith(names["LAW"]) else str(error)
print(json.dumps(outcomes))
