"""Searches named scopes of one subject from end to end, and prints each name with its verdict as JSON.

Called as ``play_exhaustive.py SUBJECT NAME ...``: a release needs a process of its own.
"""

from __future__ import annotations

import json
import sys

from evictable.specs import subjects
from evictable.specs.exhaustive.locksteps import locksteps, search


def main(subject: str, *names: str) -> None:
    kind = subjects.load(subject)
    results = [search(kind, lockstep).result for lockstep in locksteps() if lockstep.name in names]
    print(json.dumps([[result.theorem.name, result.verdict, result.detail] for result in results]))


main(*sys.argv[1:])
