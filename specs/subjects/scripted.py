"""Tiers that do what the caller says, and write down what the manager says to them.

They sit below the manager of a release or of `evictable.impl` alike, on that one's own base class. No byte is moved:
the log says which job was given which slots, and that is enough to tell what each slot holds.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from attrs import define, field, frozen

from evictable.model import calls
from evictable.model.calls import HIT, MISS, RETRY, Call, Key
from evictable.model.exchanges import (
    Asked,
    Exchange,
    PeerAsked,
    PeerClaims,
    PeerFinished,
    Reported,
    Reserved,
    Submitted,
    ToldFinished,
    Waited,
)
from evictable.specs.errors import UsageError
from evictable.specs.subjects.base import Setup
from evictable.specs.subjects.keys import KeyTable
from evictable.specs.subjects.managers import parameters_of


@define(eq=False)
class _Job:
    number: int
    tier: int
    promotion: bool
    keys: tuple[bytes, ...]
    job_id: Any
    """As the manager calls it."""


@define(eq=False)
class _Question:
    """A peer's request, the keys that it has no answer for yet, and what it is called towards the manager."""

    request: str
    keys: tuple[Key, ...]
    context: Any = None


class _Reserving:
    """Stands for a primary tier's ``prepare_write``, and logs what it answers."""

    def __init__(self, script: Script, primary: Any) -> None:
        self._script = script
        self._primary = primary
        self._own = vars(primary).get("prepare_write")
        """Its own, if the instance has one; else its class has."""

    def __call__(self, keys: Collection[bytes], *arguments: Any, **more: Any) -> Any:
        prepare_write = self._own or type(self._primary).prepare_write.__get__(self._primary)
        output = prepare_write(keys, *arguments, **more)
        log, decode_all = self._script.log, self._script.table.decode_all
        if output is None:
            log.append(Reserved(decode_all(keys), None))
        else:
            block_ids = tuple(int(block_id) for block_id in output.store_spec.block_ids)
            log.append(Reserved(decode_all(output.keys_to_store), block_ids, decode_all(output.evicted_keys)))
        return output


@define
class _Tier:
    """What one tier holds, and what waits in it."""

    contents: set[bytes] = field(factory=set)
    delayed: set[bytes] = field(factory=set)
    results: deque[tuple[_Job, tuple[bytes, ...], bool]] = field(factory=deque)
    """Until the manager polls: the job, the keys that it transferred, and whether that is success."""
    questions: list[_Question] = field(factory=list)
    """What peers wait for, until the manager lets the tier serve them."""


class Script:
    """What all tiers of one subject share: their contents, the jobs, and the log of the latest call."""

    def __init__(self, setup: Setup, request_context: Callable[[str], Any]) -> None:
        """``request_context`` makes the manager's own request object from a request's id, for peers."""
        self.table = KeyTable()
        self.request_level = frozenset(setup.request_level)
        self.log: list[Exchange] = []
        self.tiers = [_Tier() for _ in range(setup.tiers)]
        self._request_context = request_context
        self._num_jobs = 0
        self._running: dict[int, _Job] = {}
        """The jobs in flight: those that have ended are forgotten, so that a long run does not grow."""
        self._call = Call("")
        self._uses = 0

    # What the subject says.

    def begin(self, call: Call) -> None:
        """A call begins: its log is empty, and the fault that it asks for has not struck."""
        self.log = []
        self._call = call
        self._uses = 0

    def end_step(self) -> None:
        """The step has ended: no key is delayed any longer."""
        for tier in self.tiers:
            tier.delayed.clear()

    def watch(self, primary: Any) -> None:
        """Log from now on what the manager reserves in its primary tier for promotions."""
        primary.prepare_write = _Reserving(self, primary)

    # What the caller lets happen in the tiers.

    def fill(self, call: Call) -> None:
        self._tier(call).contents.update(map(self.table.encode, call.keys))

    def delay(self, call: Call) -> None:
        self._tier(call).delayed.update(map(self.table.encode, call.keys))

    def ask(self, call: Call) -> None:
        self._tier(call).questions.append(_Question(str(call.request), call.keys))

    def finish(self, call: Call) -> None:
        """End a job that is in flight; of any other, nothing happens."""
        job = None if call.job is None else self._running.get(call.job)
        if job is not None:
            named = {self.table.encode(key) for key in call.keys}
            transferred = tuple(key for key in job.keys if key in named)
            self._end(job, transferred, transferred == job.keys)

    def _tier(self, call: Call) -> _Tier:
        if call.tier is None or not 0 <= call.tier < len(self.tiers):
            raise UsageError(f"{call}: there is no such tier; the tiers are numbered from 0 to {len(self.tiers) - 1}")
        return self.tiers[call.tier]

    def _end(self, job: _Job, transferred: tuple[bytes, ...], success: bool) -> None:
        tier = self.tiers[job.tier]
        del self._running[job.number]
        if not job.promotion:
            transferred = transferred if success else ()  # a store that is not complete keeps nothing
            tier.contents.update(transferred)
        tier.results.append((job, transferred, success))

    # What the tiers say.

    def lookup(self, tier: int, key: bytes) -> str:
        held = self.tiers[tier]
        answer = RETRY if key in held.delayed else HIT if key in held.contents else MISS
        self.log.append(Asked(tier, self.table.decode(key), answer))
        return answer

    def submit(self, tier: int, given: Any, promotion: bool, method: str | None = None) -> None:
        """A job begins, unless the ``method`` that brought it is to raise: then it raises `RuntimeError`."""
        if method is not None and method == self._call.raises_in:
            self._uses += 1
        raises = method is not None and method == self._call.raises_in and self._uses == self._call.at
        block_ids = getattr(given, "chunk_ids", None)  # from 0.30
        if block_ids is None:
            block_ids = given.block_ids
        job = _Job(self._num_jobs, tier, promotion, tuple(given.keys), given.job_id)
        self._num_jobs += 1
        if not raises:
            self._running[job.number] = job
        self.log.append(
            Submitted(
                tier,
                job.number,
                promotion,
                self.table.decode_all(job.keys),
                tuple(int(block_id) for block_id in block_ids),
                str(given.req_context.req_id),
                raises,
            )
        )
        if raises:
            raise RuntimeError(f"{method} of tier {tier} fails, as the caller wants it")

    def results(self, tier: int, words: _Words) -> Iterator[Any]:
        waiting = self.tiers[tier].results
        while waiting:
            job, transferred, success = waiting.popleft()
            if job.promotion and not success and not words.says_which_keys:
                transferred = ()  # nobody will know of them
            self.log.append(Reported(tier, job.number, self.table.decode_all(transferred), success))
            yield words.result(job.job_id, success, transferred if job.promotion and not success else None)

    def drain(self, tier: int) -> None:
        succeed = self._call.success or self._call.name != calls.RESET_CACHE
        ended = []
        for job in list(self._running.values()):
            if job.tier == tier:
                transferred = job.keys if succeed else ()
                self._end(job, transferred, succeed)
                ended.append((job.number, self.table.decode_all(transferred)))
        self.log.append(Waited(tier, tuple(ended)))

    def told_finished(self, tier: int, request: str) -> None:
        self.log.append(ToldFinished(tier, request))

    def serve(self, tier: int, parent: Any) -> None:
        """Let each peer ask, and claim at once what it was told is there; what is pending it asks for again next time.

        As vLLM's tier of peers does: one batch of lookups, one job for all that were found, and the request stays
        until it has an answer for every key.
        """
        waiting = self.tiers[tier].questions
        for question in list(waiting):
            context = question.context
            if context is None:
                context = question.context = self._request_context(question.request)
                parent.on_new_request(context)
            found, pending = [], []
            for key in question.keys:
                answer = str(parent.lookup(self.table.fresh(key), context).name)
                self.log.append(PeerAsked(tier, question.request, key, answer))
                if answer == HIT:
                    found.append(key)
                elif answer != MISS:
                    pending.append(key)
            question.keys = tuple(pending)
            if found:
                keys = tuple(found)
                self.log.append(PeerClaims(tier, question.request, keys))
                self.submit(tier, parent.create_store_job(self.table.fresh_all(keys), context), promotion=False)
            if not pending:
                waiting.remove(question)
                self.log.append(PeerFinished(tier, question.request))
                parent.on_request_finished(context)


@frozen
class _Words:
    """What a base class calls things, probed on its module: no version is asked for."""

    answers: Mapping[str, Any]
    """To 0.24 a look-up answers True, False or None, from 0.25 a `LookupResult`."""
    says_which_keys: bool
    """A result can name the keys that arrived, from 0.28."""
    _result: Callable[..., Any]
    _request_policy: Callable[..., Any] | None
    """How to answer a new request; not in 0.22."""

    def result(self, job_id: Any, success: bool, successful_keys: tuple[bytes, ...] | None) -> Any:
        if successful_keys is None or not self.says_which_keys:
            return self._result(job_id=job_id, success=success)
        return self._result(job_id=job_id, success=success, successful_keys=successful_keys)

    def request_policy(self, request_level: bool) -> Any:
        if self._request_policy is None:
            return None
        answer = self._request_policy()
        return self._request_policy(policy=type(answer.policy).REQUEST_LEVEL) if request_level else answer


def _words_of(base: type) -> _Words:
    module = sys.modules[base.__module__]
    results = getattr(module, "LookupResult", None)
    return _Words(
        answers={HIT: True, MISS: False, RETRY: None} if results is None else dict(results.__members__),
        says_which_keys="successful_keys" in parameters_of(module.JobResult),
        result=module.JobResult,
        request_policy=getattr(module, "RequestOffloadingContext", None),
    )


class _Scripted:
    """The methods of a secondary tier of any release; one that a base class does not know is never called."""

    def __init__(self, script: Script, index: int, words: _Words, **given: Any) -> None:
        super().__init__(**given)
        self._script = script
        self._index = index
        self._words = words

    def __repr__(self) -> str:
        return f"<scripted tier {self._index}>"

    def lookup(self, key: bytes, req_context: Any) -> Any:
        return self._words.answers[self._script.lookup(self._index, key)]

    def submit_store(self, job: Any) -> None:
        self._script.submit(self._index, job, promotion=False, method="submit_store")

    def submit_load(self, job: Any) -> None:
        self._script.submit(self._index, job, promotion=True, method="submit_load")

    def get_finished_jobs(self) -> Iterator[Any]:
        return self._script.results(self._index, self._words)

    get_finished = get_finished_jobs  # in 0.22

    def drain_jobs(self) -> None:
        self._script.drain(self._index)

    def on_new_request(self, req_context: Any) -> Any:
        return self._words.request_policy(self._index in self._script.request_level)

    def on_request_finished(self, req_context: Any) -> None:
        self._script.told_finished(self._index, str(req_context.req_id))

    def serve_external_requests(self, parent: Any) -> None:
        self._script.serve(self._index, parent)


def scripted_tiers(base: type, script: Script, primary_kv_view: memoryview | None) -> list[Any]:
    """As many secondary tiers as the script knows, on top of ``base``, anybody's `SecondaryTierManager`.

    Raises `UsageError` if the base class wants what the scripted tier does not have.
    """
    make = _tier_factory(base)
    return [make(script, index, primary_kv_view) for index in range(len(script.tiers))]


@functools.cache
def _tier_factory(base: type) -> Callable[[Script, int, memoryview | None], Any]:
    made: Any = type(base)("ScriptedTier", (_Scripted, base), {"__module__": __name__})
    unknown = ", ".join(sorted(getattr(made, "__abstractmethods__", ())))
    if unknown:
        raise UsageError(
            f"{base.__module__}.{base.__name__}: a scripted tier has no method {unknown}; leave out --tiers"
        )
    words = _words_of(base)
    parameters = parameters_of(base)

    def make(script: Script, index: int, primary_kv_view: memoryview | None) -> Any:
        known = {"offloading_spec": None, "primary_kv_view": primary_kv_view, "tier_type": "scripted"}
        return made(script, index, words, **{name: value for name, value in known.items() if name in parameters})

    return make
