"""Proves a release in a process of its own, since a process holds one tree: prints name, verdict and detail as JSON."""

from __future__ import annotations

import json
import sys

from evictable.specs.proofs.prove import prove

if __name__ == "__main__":
    results = [(result.theorem.name, result.verdict, result.detail) for result in prove(sys.argv[1])]
    print(json.dumps(results))
