"""Mutants of the manager of tiers, as data.

Not here, because no law is broken by them: promotions of several requests in one job; a request's cascade that is
dropped because the tiers were told of its end; a tier that is never told; parked keys that are never cascaded. Nor is
what only a tier that lies would bring to light, such as a result that is reported twice.
"""

from __future__ import annotations

from evictable.specs.callers.disciplines import CARELESS, CONTRACT, HOSTILE
from evictable.specs.mutants.mutant import Mutant


def _tiered(
    name: str,
    kind: str,
    sentence: str,
    old: str,
    new: str,
    laws: tuple[str, ...],
    discipline: str = CONTRACT,
    policy: str = "lru",
    tiers: int = 1,
) -> Mutant:
    return Mutant(name, sentence, "tiering.manager", old, new, laws, discipline, kind, policy, tiers)


MUTANTS_OF_TIERS: tuple[Mutant, ...] = (
    # --- what lookups have called HIT ---
    _tiered(
        name="hit-not-held",
        kind="hit-is-no-pin",
        sentence="a promotion evicts what a lookup of the same step has called HIT",
        old="self.primary_tier.held.add(key)",
        new="pass",
        laws=("hit-loads",),
    ),
    _tiered(
        name="hold-gives-way",
        kind="hit-is-no-pin",
        sentence="a promotion that finds no other room evicts what a lookup of the same step has called HIT",
        old="output = self._begin_store(new, kept, num_idle, req_context.req_id)",
        new=(
            "output = self._begin_store(new, kept, num_idle, req_context.req_id)\n"
            "        if output is None:\n"
            "            output = self._begin_store(new, keys, 0, req_context.req_id)"
        ),
        laws=("hit-loads",),
    ),
    _tiered(
        name="blocks-chase-each-other",
        kind="protection",
        sentence="the blocks that a request waits for evict each other, step after step",
        old="kept = self.held.union(keys)",
        new="kept = set(keys)",
        laws=("tier-progress", "hit-loads"),
        policy="arc",
    ),
    _tiered(
        name="hit-of-a-peer-not-held",
        kind="hit-is-no-pin",
        sentence="what a peer was told is there is evicted before the peer can claim it",
        old="if result is LookupResult.HIT:\n            self.primary_tier.held.add(key)",
        new="if result is LookupResult.HIT and exclude_tier_idx is None:\n            self.primary_tier.held.add(key)",
        laws=("hit-loads",),
        tiers=2,
    ),
    _tiered(
        name="holds-outlive-the-step",
        kind="refusal",
        sentence="what was once called HIT is never evicted for a promotion",
        old="self.primary_tier.held.clear()",
        new="pass",
        laws=("answer", "evict-order"),
    ),
    _tiered(
        name="offer-heeds-holds",
        kind="refusal",
        sentence="an offer is refused rather than evict what a lookup of this step has called HIT",
        old="output = self.primary_tier.prepare_store(keys, req_context)",
        new="output = self.primary_tier.prepare_write(keys, req_context)",
        laws=("no-false-refusal",),
    ),
    _tiered(
        name="pinned-counted-among-the-held",
        kind="miscounted",
        sentence="a held block that is being read is counted among those that could make room",
        old="if block is not None and block.ref_cnt == 0)",
        new="if block is not None)",
        laws=("answer",),
    ),
    # --- what lookups answer ---
    _tiered(
        name="promotion-answered-hit",
        kind="pending-misread",
        sentence="a lookup says HIT where a promotion has only begun",
        old="LookupResult.HIT_PENDING if promoted else LookupResult.MISS",
        new="LookupResult.HIT if promoted else LookupResult.MISS",
        laws=("answer", "legal-step"),
    ),
    _tiered(
        name="no-room-answered-pending",
        kind="pending-misread",
        sentence="a lookup says HIT_PENDING where there is no room for a promotion",
        old="LookupResult.HIT_PENDING if promoted else LookupResult.MISS",
        new="LookupResult.HIT_PENDING",
        laws=("answer",),
    ),
    _tiered(
        name="promotes-into-free-slots-only",
        kind="boundary",
        sentence="a lookup says MISS where a promotion would have to evict",
        old="kept = self.held.union(keys)",
        new="if len(new) > self._get_num_free_blocks():\n            return None\n        kept = self.held.union(keys)",
        laws=("answer",),
    ),
    _tiered(
        name="retry-swallowed",
        kind="answer",
        sentence="a lookup says MISS where a tier does not know yet",
        old="result = LookupResult.RETRY",
        new="pass",
        laws=("answer",),
    ),
    _tiered(
        name="retry-ends-the-search",
        kind="answer",
        sentence="a lookup says RETRY because of one tier, though the next has the key",
        old="result = LookupResult.RETRY",
        new="return LookupResult.RETRY",
        laws=("answer",),
        tiers=2,
    ),
    _tiered(
        name="only-the-nearest-tier-asked",
        kind="tiers",
        sentence="a lookup says MISS where only the second tier has the key",
        old="if answer is not LookupResult.MISS:\n                result",
        new="break\n            if answer is not LookupResult.MISS:\n                result",
        laws=("answer",),
        tiers=2,
    ),
    _tiered(
        name="farthest-tier-first",
        kind="tiers",
        sentence="a key is promoted from the farthest tier that has it",
        old="answer = self.secondary_tiers[tier_idx].lookup(key, req_context)",
        new=(
            "tier_idx = len(self.secondary_tiers) - 1 - tier_idx\n"
            "            answer = self.secondary_tiers[tier_idx].lookup(key, req_context)"
        ),
        laws=("pin-has-job",),
        tiers=2,
    ),
    _tiered(
        name="lookup-before-results",
        kind="answer",
        sentence="a lookup answers before it takes the results of jobs, so as if they had not ended",
        old=(
            "if not self._polled_this_step:\n"
            "            self._poll()\n"
            "        result = self.primary_tier.lookup(key, req_context)"
        ),
        new=(
            "result = self.primary_tier.lookup(key, req_context)\n"
            "        if not self._polled_this_step:\n"
            "            self._poll()"
        ),
        laws=("answer",),
    ),
    # --- promotions that wait for the end of the step ---
    _tiered(
        name="promotion-not-submitted",
        kind="pin-without-job",
        sentence="a promotion is promised, its slot reserved, and no tier is given the job",
        old="requests = self._submit_staged()",
        new="requests: list[_Request] = []",
        laws=("pin-has-job",),
    ),
    _tiered(
        name="one-promotion-job-a-step",
        kind="pin-without-job",
        sentence="of several promotion jobs the first is submitted, the others wait for another step",
        old="for place, batch in list(self._staged.items()):",
        new="for place, batch in list(self._staged.items())[:1]:",
        laws=("pin-has-job",),
    ),
    _tiered(
        name="promotion-into-wrong-slots",
        kind="slots",
        sentence="a promotion of several keys is told their slots in another order",
        old="batch.keys, batch.block_ids, True, request",
        new="batch.keys, reversed(batch.block_ids), True, request",
        laws=("pin-has-job",),
    ),
    _tiered(
        name="promotion-from-another-tier",
        kind="tiers",
        sentence="a promotion is submitted to the nearest tier, though the next has the key",
        old="tier_idx, request = place[0], batch.request",
        new="tier_idx, request = 0, batch.request",
        laws=("pin-has-job",),
        tiers=2,
    ),
    _tiered(
        name="finish-drops-promotions",
        kind="pin-without-job",
        sentence="a request that finishes takes its promotions back, but not their slots",
        old="self.primary_tier.on_request_finished(req_context)",
        new=(
            "self.primary_tier.on_request_finished(req_context)\n"
            "        for place in [place for place in self._staged if place[1] == req_context.req_id]:\n"
            "            del self._staged[place]"
        ),
        laws=("pin-has-job",),
    ),
    # --- what jobs hold ---
    _tiered(
        name="job-without-pin",
        kind="hit-is-no-pin",
        sentence="a tier is given slots to read that nothing keeps from being evicted",
        old="block_ids = self.primary_tier.prepare_read(keys, owner).block_ids",
        new=(
            "block_ids = self.primary_tier.prepare_read(keys, owner).block_ids\n"
            "        self.primary_tier.complete_read(keys, owner)"
        ),
        laws=("pin-has-job",),
    ),
    _tiered(
        name="job-pins-twice",
        kind="pin-without-job",
        sentence="a job takes two pins on each key and gives one back",
        old="block_ids = self.primary_tier.prepare_read(keys, owner).block_ids",
        new=(
            "self.primary_tier.prepare_read(keys, owner)\n"
            "        block_ids = self.primary_tier.prepare_read(keys, owner).block_ids"
        ),
        laws=("pin-has-job",),
    ),
    _tiered(
        name="pin-without-job",
        kind="pin-without-job",
        sentence="a cascade pins its keys, and no tier is given the job",
        old="self._submit(self._jobs[job.job_id])",
        new="pass",
        laws=("answer", "legal-step", "tier-drains"),
    ),
    _tiered(
        name="promotion-not-registered",
        kind="pin-without-job",
        sentence="the result of a promotion is that of no known job, and its slots stay reserved",
        old="job = self._jobs[job_id] = _Job(tier_idx, owner, metadata, keys)",
        new=(
            "job = _Job(tier_idx, owner, metadata, keys)\n"
            "        if not is_promotion:\n"
            "            self._jobs[job_id] = job"
        ),
        laws=("pin-has-job", "tier-drains"),
    ),
    _tiered(
        name="job-ids-repeat",
        kind="generation",
        sentence="two jobs that are under way have the same id",
        old="self._num_jobs += 1",
        new="self._num_jobs = 1 - self._num_jobs",
        laws=("pin-has-job", "answer", "tier-drains"),
    ),
    _tiered(
        name="pins-outlive-the-job",
        kind="pin-without-job",
        sentence="a store into a tier ends and its keys stay pinned",
        old="self.primary_tier.complete_read(job.keys, job.owner)",
        new="pass",
        laws=("pin-has-job", "tier-drains"),
    ),
    _tiered(
        name="failed-job-keeps-its-pins",
        kind="error-path",
        sentence="a store into a tier fails and its keys stay pinned",
        old="self.primary_tier.complete_read(job.keys, job.owner)",
        new="if success:\n                self.primary_tier.complete_read(job.keys, job.owner)",
        laws=("pin-has-job", "tier-drains"),
    ),
    _tiered(
        name="failed-promotion-kept-as-present",
        kind="error-path",
        sentence="what a promotion has failed to bring counts as ready",
        old="self.primary_tier.complete_write(lost, job.owner, False)",
        new="self.primary_tier.complete_write(lost, job.owner)",
        laws=("pin-has-job", "answer"),
    ),
    _tiered(
        name="failed-promotion-keeps-its-slot",
        kind="error-path",
        sentence="what a promotion has failed to bring counts as pending for ever",
        old="self.primary_tier.complete_write(lost, job.owner, False)",
        new="pass",
        laws=("pin-has-job", "tier-drains"),
    ),
    _tiered(
        name="promoted-in-part-taken-for-whole",
        kind="error-path",
        sentence="a promotion that brings some of its keys makes all of them ready",
        old="good = set(job.keys if success else successful_keys)",
        new="good = set(job.keys if success or successful_keys else ())",
        laws=("pin-has-job",),
    ),
    _tiered(
        name="promoted-in-part-given-up",
        kind="error-path",
        sentence="a promotion that brings some of its keys makes none of them ready",
        old="good = set(job.keys if success else successful_keys)",
        new="good = set(job.keys if success else ())",
        laws=("pin-has-job",),
    ),
    _tiered(
        name="promotion-pins-what-arrived",
        kind="missed-step",
        sentence="a block that a promotion has brought stays pinned for a load that may never come",
        old="job.keys = lost\n",
        new="job.keys = lost\n                self.primary_tier.prepare_read(arrived, job.owner)\n",
        laws=("pin-has-job", "tier-drains"),
    ),
    _tiered(
        name="pin-of-a-job-for-its-request",
        kind="owner",
        sentence="a request can complete, as a load of its own, what a tier reads for it",
        old="owner = _new_owner(req_context)\n        block_ids",
        new="owner = req_context\n        block_ids",
        laws=("owner-completes",),
        discipline=CARELESS,
    ),
    _tiered(
        name="promotion-for-its-request-to-complete",
        kind="owner",
        sentence="a request can complete, as a store of its own, what a tier writes for it",
        old="owner = _new_owner(req_context) if batch is None else batch.owner",
        new="owner = req_context if batch is None else batch.owner",
        laws=("owner-completes", "pinned-stays"),
        discipline=CARELESS,
    ),
    # --- slots that are let go of too early ---
    _tiered(
        name="store-taken-for-done",
        kind="early-reuse",
        sentence="a slot can be reused as soon as a tier was told to read it",
        old="(tier.submit_load if job.metadata.is_promotion else tier.submit_store)(job.metadata)",
        new=(
            "(tier.submit_load if job.metadata.is_promotion else tier.submit_store)(job.metadata)\n"
            "            if not job.metadata.is_promotion:\n"
            "                self._end(job, success=True)"
        ),
        laws=("pin-has-job",),
    ),
    _tiered(
        name="promotion-taken-for-done",
        kind="early-reuse",
        sentence="a slot can be read as soon as a tier was told to write it",
        old="(tier.submit_load if job.metadata.is_promotion else tier.submit_store)(job.metadata)",
        new=(
            "(tier.submit_load if job.metadata.is_promotion else tier.submit_store)(job.metadata)\n"
            "            if job.metadata.is_promotion:\n"
            "                self._end(job, success=True)"
        ),
        laws=("pin-has-job",),
    ),
    _tiered(
        name="finish-gives-pins-back",
        kind="double-unpin",
        sentence="a request that finishes gives back what tiers still read for it",
        old="self.primary_tier.on_request_finished(req_context)",
        new=(
            "self.primary_tier.on_request_finished(req_context)\n"
            "        for job in list(self._jobs.values()):\n"
            "            if not job.metadata.is_promotion and job.metadata.req_context.req_id == req_context.req_id:\n"
            "                self._end(job, success=False)"
        ),
        laws=("legal-step",),
    ),
    _tiered(
        name="finish-gives-slots-back",
        kind="early-reuse",
        sentence="a request that finishes gives back the slots that tiers still write for it",
        old="self.primary_tier.on_request_finished(req_context)",
        new=(
            "self.primary_tier.on_request_finished(req_context)\n"
            "        for job in list(self._jobs.values()):\n"
            "            if job.metadata.is_promotion and job.metadata.req_context.req_id == req_context.req_id:\n"
            "                self._end(job, success=False)"
        ),
        laws=("pinned-stays", "legal-step"),
    ),
    # --- tiers that raise ---
    _tiered(
        name="refused-store-keeps-its-pins",
        kind="error-path",
        sentence="a tier that refuses a store leaves its keys pinned",
        old="self._end(job, success=False)",
        new="if job.metadata.is_promotion:\n                self._end(job, success=False)",
        laws=("pin-has-job", "tier-drains", "drains"),
        discipline=HOSTILE,
    ),
    _tiered(
        name="refused-promotion-keeps-its-slots",
        kind="error-path",
        sentence="a tier that refuses a promotion leaves its slots reserved",
        old="self._end(job, success=False)",
        new="if not job.metadata.is_promotion:\n                self._end(job, success=False)",
        laws=("pin-has-job", "tier-drains"),
        discipline=HOSTILE,
    ),
    _tiered(
        name="refused-promotion-kept-as-present",
        kind="error-path",
        sentence="a tier that refuses a promotion leaves its keys ready",
        old="self._end(job, success=False)",
        new="self._end(job, success=True)",
        laws=("pin-has-job",),
        discipline=HOSTILE,
    ),
    _tiered(
        name="refusal-raised",
        kind="error-path",
        sentence="a tier that refuses a job makes the call raise that brought it",
        old='_logger.exception("tier %d (%s) has failed", tier_idx, self.secondary_tiers[tier_idx].tier_type)',
        new="raise",
        laws=("answer", "all-or-nothing"),
        discipline=HOSTILE,
    ),
    _tiered(
        name="refusal-ends-the-cascade",
        kind="error-path",
        sentence="a tier that refuses a store keeps the farther ones from being given theirs",
        old="for tier_idx in tiers:\n            with self._tolerating(tier_idx):\n                job",
        new="with self._tolerating(0):\n            for tier_idx in tiers:\n                job",
        laws=("answer",),
        discipline=HOSTILE,
        tiers=2,
    ),
    _tiered(
        name="refusal-ends-the-promotions",
        kind="error-path",
        sentence="a tier that refuses a promotion keeps the others from being submitted",
        old="with self._tolerating(tier_idx):\n                self._submit(job)",
        new="try:\n                self._submit(job)\n            except Exception:\n                break",
        laws=("pin-has-job",),
        discipline=HOSTILE,
    ),
    # --- results ---
    _tiered(
        name="results-never-taken",
        kind="missed-step",
        sentence="jobs end and nobody asks the tiers for their results",
        old="for tier_idx, tier in enumerate(self.secondary_tiers):\n                for result",
        new="for tier_idx, tier in enumerate(self.secondary_tiers[:0]):\n                for result",
        laws=("tier-drains",),
    ),
    _tiered(
        name="results-of-one-tier-only",
        kind="tiers",
        sentence="only the nearest tier is asked for results",
        old="for tier_idx, tier in enumerate(self.secondary_tiers):\n                for result",
        new="for tier_idx, tier in enumerate(self.secondary_tiers[:1]):\n                for result",
        laws=("tier-drains",),
        tiers=2,
    ),
    _tiered(
        name="results-taken-by-lookups-only",
        kind="missed-step",
        sentence="as long as nobody looks anything up, jobs that have ended keep what they hold",
        old=(
            "self._poll()\n"
            "        for tier_idx, tier in enumerate(self.secondary_tiers):\n"
            "            with self._tolerating(tier_idx):\n"
            "                tier.serve"
        ),
        new=(
            "for tier_idx, tier in enumerate(self.secondary_tiers):\n"
            "            with self._tolerating(tier_idx):\n"
            "                tier.serve"
        ),
        laws=("tier-drains",),
    ),
    _tiered(
        name="one-result-a-poll",
        kind="missed-step",
        sentence="of several results the first is applied, the others are taken and kept for later",
        old="while self._results:",
        new="if self._results:",
        laws=("pin-has-job", "tier-drains"),
    ),
    _tiered(
        name="latest-result-first",
        kind="order",
        sentence="blocks become evictable in another order than that in which their jobs ended",
        old="self._results.append(",
        new="self._results.appendleft(",
        laws=("evict-order",),
    ),
    _tiered(
        name="promotion-arrives-backwards",
        kind="order",
        sentence="the keys of a promotion become evictable last first",
        old="arrived = [key for key in job.keys if",
        new="arrived = [key for key in reversed(job.keys) if",
        laws=("evict-order",),
    ),
    _tiered(
        name="job-counts-as-use",
        kind="order",
        sentence="a block that a tier has read counts as used by a request",
        old="self.primary_tier.complete_read(job.keys, job.owner)",
        new=(
            "self.primary_tier.complete_read(job.keys, job.owner)\n"
            "            self.primary_tier.touch(job.keys, job.owner)"
        ),
        laws=("evict-order",),
    ),
    # --- the end of a request ---
    _tiered(
        name="end-told-while-storing",
        kind="requests",
        sentence="a tier is given a store of a request of whose end it was told",
        old="request.finished = True",
        new=(
            "request.finished = True\n"
            "            for tier_idx in self._tiers_but(request.origin):\n"
            "                self.secondary_tiers[tier_idx].on_request_finished(req_context)"
        ),
        laws=("tier-drains",),
    ),
    _tiered(
        name="end-told-while-staged",
        kind="requests",
        sentence="a tier is given a promotion for a request of whose end it was told",
        old=" or request.staged or",
        new=" or",
        laws=("tier-drains",),
    ),
    _tiered(
        name="end-told-while-parked",
        kind="requests",
        sentence="a tier that wants whole requests is given the rest of one of whose end it was told",
        old=" or request.parked:",
        new=":",
        laws=("tier-drains",),
    ),
    _tiered(
        name="end-told-of-a-live-request",
        kind="requests",
        sentence="a request that has nothing under way is taken for finished, and nothing is promoted for it any more",
        old="if not request.finished or request.storing or",
        new="if request.storing or",
        laws=("tier-progress",),
    ),
    _tiered(
        name="finished-request-promotes",
        kind="requests",
        sentence="a lookup of a request of whose end the tiers were told begins a promotion",
        old="if result is not LookupResult.MISS or req_context.req_id in self._told:",
        new="if result is not LookupResult.MISS:",
        laws=("tier-drains",),
        discipline=CARELESS,
    ),
    _tiered(
        name="finished-request-cascades",
        kind="requests",
        sentence="a store of a request of whose end the tiers were told is cascaded to them",
        old="if req_context.req_id not in self._told:\n            request = self._record(req_context)",
        new="if True:\n            request = self._record(req_context)",
        laws=("tier-drains",),
        discipline=CARELESS,
    ),
    _tiered(
        name="announced-again-and-still-finished",
        kind="generation",
        sentence="nothing is promoted for a request that is announced a second time, after its end",
        old="self._told.pop(req_context.req_id, None)",
        new="pass",
        laws=("answer",),
        discipline=CARELESS,
    ),
    # --- cascades ---
    _tiered(
        name="cascade-to-one-tier",
        kind="tiers",
        sentence="what was stored goes to the nearest tier only",
        old="for tier_idx in tiers:",
        new="for tier_idx in list(tiers)[:1]:",
        laws=("answer",),
        tiers=2,
    ),
    _tiered(
        name="cascade-of-one-key",
        kind="tiers",
        sentence="of several keys that were stored together, the first goes to the tiers",
        old="self._cascade(keys, req_context, self._tiers_but(request.origin))",
        new="self._cascade(keys[:1], req_context, self._tiers_but(request.origin))",
        laws=("answer",),
    ),
    _tiered(
        name="whole-request-not-cascaded",
        kind="tiers",
        sentence="a tier that wants whole requests does not get what is in the primary tier already",
        old="self._cascade_present(present, request)",
        new="pass",
        laws=("answer",),
    ),
    _tiered(
        name="whole-request-waits-for-the-pending",
        kind="pending-misread",
        sentence="a key that is still being stored keeps the others of its request from being cascaded",
        old="if result is LookupResult.HIT:\n                ready.append(key)",
        new="if result is not LookupResult.MISS:\n                ready.append(key)",
        laws=("answer",),
    ),
    _tiered(
        name="cascade-in-the-way-of-an-offer",
        kind="refusal",
        sentence="a promotion that has arrived is cascaded before the offer that could have evicted it",
        old="self._results.popleft()",
        new="self._results.popleft()\n        self._unpark_arrived()",
        laws=("no-false-refusal",),
    ),
    # --- peers ---
    _tiered(
        name="origin-tier-asked",
        kind="tiers",
        sentence="a tier that asks for a peer is asked for the key itself",
        old="self._manager.lookup(key, req_context, exclude_tier_idx=self._tier_idx)",
        new="self._manager.lookup(key, req_context)",
        laws=("answer",),
    ),
    _tiered(
        name="pending-key-promised-to-a-peer",
        kind="pending-misread",
        sentence="a peer is told HIT where a transfer has only begun",
        old="return self._manager.lookup(key, req_context, exclude_tier_idx=self._tier_idx)",
        new=(
            "result = self._manager.lookup(key, req_context, exclude_tier_idx=self._tier_idx)\n"
            "        return LookupResult.HIT if result is LookupResult.HIT_PENDING else result"
        ),
        laws=("answer", "hit-loads"),
    ),
    _tiered(
        name="job-of-a-peer-under-another-tier",
        kind="owner",
        sentence="a tier reports the job that a peer asked for, and that is taken for another tier's",
        old="self._manager.create_store_job(keys, req_context, self._tier_idx)",
        new="self._manager.create_store_job(keys, req_context)",
        laws=("pin-has-job", "tier-drains"),
        tiers=2,
    ),
    # --- resets ---
    _tiered(
        name="reset-without-drain",
        kind="early-reuse",
        sentence="a reset hands out slots that tiers are still reading and writing",
        old="for tier in self.secondary_tiers:\n            tier.drain_jobs()",
        new="",
        laws=("slot-contents",),
    ),
    _tiered(
        name="reset-drains-one-tier",
        kind="early-reuse",
        sentence="a reset waits for the nearest tier only",
        old="for tier in self.secondary_tiers:\n            tier.drain_jobs()",
        new="for tier in self.secondary_tiers[:1]:\n            tier.drain_jobs()",
        laws=("slot-contents",),
        tiers=2,
    ),
    _tiered(
        name="reset-waits-for-promotions-only",
        kind="early-reuse",
        sentence="a reset hands out slots that tiers are still reading",
        old="for tier in self.secondary_tiers:\n            tier.drain_jobs()",
        new=(
            "for job in list(self._jobs.values()):\n"
            "            if job.metadata.is_promotion:\n"
            "                self.secondary_tiers[job.tier_idx].drain_jobs()"
        ),
        laws=("slot-contents",),
    ),
    _tiered(
        name="reset-keeps-promotions",
        kind="forgetful-reset",
        sentence="after a reset a tier is given the promotions from before, whose slots are another's",
        old="self._staged.clear()",
        new="pass",
        laws=("pin-has-job", "tier-drains"),
    ),
    _tiered(
        name="reset-keeps-jobs",
        kind="forgetful-reset",
        sentence="after a reset the jobs from before give back what they no longer hold",
        old="self._poll()\n        self.primary_tier.reset_cache()\n        self._jobs.clear()",
        new="self.primary_tier.reset_cache()",
        laws=("answer", "progress"),
    ),
    # --- events ---
    _tiered(
        name="promotion-announced-twice",
        kind="events",
        sentence="a key that a promotion has brought is announced twice",
        old="job.keys = lost\n",
        new="job.keys = lost\n                self.primary_tier._announce(arrived, removed=False)\n",
        laws=("events-once",),
    ),
    _tiered(
        name="promotion-not-announced",
        kind="events",
        sentence="a key that a promotion has brought is not announced",
        old="job.keys = lost\n",
        new=(
            "job.keys = lost\n"
            "                if self.primary_tier.events:\n"
            "                    self.primary_tier.events.pop()\n"
        ),
        laws=("events-once", "events-replay"),
    ),
    _tiered(
        name="failed-promotion-announced",
        kind="events",
        sentence="a promotion that fails is announced as a removal of keys that were never announced",
        old="self.primary_tier.complete_write(lost, job.owner, False)",
        new=(
            "self.primary_tier.complete_write(lost, job.owner, False)\n"
            "                self.primary_tier._announce(lost, removed=True)"
        ),
        laws=("events-once",),
    ),
)
