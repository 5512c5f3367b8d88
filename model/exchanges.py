"""What a manager and the tiers below it say to each other during a call, as the tiers hear it."""

from __future__ import annotations

from attrs import frozen

from evictable.model.calls import Key


@frozen
class Asked:
    """The manager looked a key up in a tier."""

    tier: int
    key: Key
    answer: str
    """MISS, HIT or RETRY."""

    def __str__(self) -> str:
        return f"tier {self.tier} is asked for {self.key}: {self.answer}"


@frozen
class Reserved:
    """The manager made room in the primary tier for keys that a tier has; ``block_ids`` is ``None`` if it could not."""

    keys: tuple[Key, ...]
    block_ids: tuple[int, ...] | None
    evicted: tuple[Key, ...] = ()

    def __str__(self) -> str:
        if self.block_ids is None:
            return f"no room for {list(self.keys)}"
        return f"reserves slots {list(self.block_ids)} for {list(self.keys)}, evicting {list(self.evicted)}"


@frozen
class Submitted:
    """The manager gave a tier a job: to read slots (a store into the tier), or to write them (a promotion).

    Jobs are numbered from 0 in the order in which they are submitted, whatever ids the manager gives them. A job
    that a peer asked for, through the tier, is one too. The tier may raise: then the job never runs.
    """

    tier: int
    job: int
    promotion: bool
    keys: tuple[Key, ...]
    block_ids: tuple[int, ...]
    request: str
    raised: bool = False

    def __str__(self) -> str:
        what = f"load {list(self.keys)} into" if self.promotion else f"store {list(self.keys)} from"
        failed = ", and raises" if self.raised else ""
        return f"tier {self.tier} gets job {self.job} of {self.request}: {what} slots {list(self.block_ids)}{failed}"


@frozen
class Reported:
    """The manager took the result of a job: it transferred ``keys``, all of the job's or fewer."""

    tier: int
    job: int
    keys: tuple[Key, ...]
    success: bool

    def __str__(self) -> str:
        how = "done" if self.success else f"failed, but for {list(self.keys)}" if self.keys else "failed"
        return f"tier {self.tier} reports job {self.job}: {how}"


@frozen
class ToldFinished:
    """The manager told a tier that a request will submit nothing further."""

    tier: int
    request: str

    def __str__(self) -> str:
        return f"tier {self.tier} is told that {self.request} has finished"


@frozen
class Waited:
    """The manager waited until a tier had ended all its jobs: ``ended`` are those that had not, and what each did."""

    tier: int
    ended: tuple[tuple[int, tuple[Key, ...]], ...]

    def __str__(self) -> str:
        return f"tier {self.tier} is drained: jobs {[job for job, _ in self.ended]} end"


@frozen
class PeerAsked:
    """A peer behind ``tier`` asked the manager for a key, through the tier."""

    tier: int
    request: str
    key: Key
    answer: str

    def __str__(self) -> str:
        return f"a peer behind tier {self.tier} asks for {self.key}: {self.answer}"


@frozen
class PeerClaims:
    """A peer is about to have keys pinned that it was told are there; the job follows, if the manager grants it."""

    tier: int
    request: str
    keys: tuple[Key, ...]

    def __str__(self) -> str:
        return f"a peer behind tier {self.tier} claims {list(self.keys)}"


@frozen
class PeerFinished:
    """A peer has an answer for every key that it asked for, and goes."""

    tier: int
    request: str

    def __str__(self) -> str:
        return f"{self.request} of a peer behind tier {self.tier} has finished"


Exchange = Asked | Reserved | Submitted | Reported | ToldFinished | Waited | PeerAsked | PeerClaims | PeerFinished
