"""The process of one subject: it is asked for rounds, one at a time, in turn with those of the others.

Reads a JSON object a line and answers each with one: ``{"load": name}``; ``{"begin": trial, ...}`` with the trial's
arguments; ``{"round": seed}``; ``{"end": true}`` gives the trial's memory back. An answer with ``error`` names bad
input, one with ``failed`` what the subject did. Run as ``python -m evictable.specs.bench.worker``.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from attrs import define

from evictable.specs.bench.judged import NotAsExpected
from evictable.specs.bench.makers import Maker, maker_of
from evictable.specs.bench.trials import TRIALS, Trial
from evictable.specs.errors import UsageError
from evictable.specs.subjects.vllm import POLICIES


@define
class Server:
    """Answers what is asked; `maker` and `trial` are what was asked for last."""

    maker: Maker | None = None
    trial: Trial | None = None

    def answer(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return self._answer(asked)
        except UsageError as error:
            return {"error": " ".join(str(error).split())}
        except NotAsExpected as error:
            return {"failed": str(error)}
        except Exception as error:
            return {"failed": f"{type(error).__name__}: {' '.join(str(error).split())}"}

    def _answer(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        if "load" in asked:
            self.maker = maker_of(asked["load"])
            kind = self.maker.kind
            return {"profiles": {} if kind is None else {policy: kind.profile(policy) for policy in POLICIES}}
        if "begin" in asked:
            arguments = {name: value for name, value in asked.items() if name != "begin"}
            self.trial = TRIALS[asked["begin"]](self.maker, **arguments)
            return {}
        if "round" in asked:
            assert self.trial is not None
            measured = self.trial.round(asked["round"])
            return {"numbers": measured.numbers, "digest": measured.digest, "words": measured.words}
        self.trial = None
        gc.unfreeze()
        gc.collect()
        return {}


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a subject prints must not land among the answers
    server = Server()
    for line in sys.stdin:
        answers.write(json.dumps(server.answer(json.loads(line))) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
