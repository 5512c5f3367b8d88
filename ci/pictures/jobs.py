"""The jobs of tiers as arrows, between the lifelines of the primary tier and of those below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attrs import define, field

from evictable.ci.pictures.shapes import CHARACTER, Pen
from evictable.specs.drawing.drawing import Drawing, Job

LIFELINE = 130
"""Between two lifelines."""
LINE = 16
SIGNS = {"done": "✓", "failed": "✗", "failed in part": "½", "raises": "✗", "under way": "…"}

Row = tuple[int, int, int]
"""The number of a call, and where its row begins and how high it is."""


def counted_rows(drawing: Drawing, number: int) -> int:
    """Lines that the labels of jobs need in the row of call ``number``."""
    first = drawing.steps[0].number
    begun = sum(max(job.submitted, first) == number for job in drawing.jobs)
    return max(begun, sum(job.reported == number for job in drawing.jobs))


def label_of(job: Job) -> str:
    """``job 0: 3, 4 ✓``; with a tick if it did what it was to do."""
    return f"job {job.number}: {', '.join(map(str, job.keys))} {SIGNS[job.result]}"


def sentence_of(job: Job) -> str:
    """The job in words, for a tooltip and for those who hear the page."""
    way = f"up from tier {job.tier} into" if job.promotion else f"down to tier {job.tier} from"
    taken = "its result is not taken yet" if job.reported is None else f"its result is taken in call {job.reported}"
    return (
        f"Job {job.number} of {job.request}, submitted in call {job.submitted}: {list(job.keys)} {way} slots "
        f"{list(job.block_ids)}; {job.result}; {taken}."
    )


@define
class JobLanes:
    """Where the lifelines are."""

    drawing: Drawing
    left: int
    _used: Counter[tuple[int, int]] = field(factory=Counter)
    """Labels so far, by row and lifeline."""

    @property
    def right(self) -> int:
        return self.left + 30 + LIFELINE * self.drawing.tiers + 40

    def x_of(self, tier: int | None) -> int:
        """Of the primary tier (``None``), or of one below it."""
        return self.left + 30 + (0 if tier is None else LIFELINE * (tier + 1))

    def draw(self, pen: Pen, rows: Sequence[Row], top: int) -> None:
        if not rows:
            return
        bottom = rows[-1][1] + rows[-1][2]
        for tier in (None, *range(self.drawing.tiers)):
            name = "primary" if tier is None else f"tier {tier}"
            pen.text(self.x_of(tier), top + 18, name, "key", anchor="middle")
            pen.line((self.x_of(tier), rows[0][1]), (self.x_of(tier), bottom), "lifeline")
        places = {number: (y, height) for number, y, height in rows}
        for job in self.drawing.jobs:
            self._arrow(pen, job, places, bottom)

    def _arrow(self, pen: Pen, job: Job, rows: dict[int, tuple[int, int]], bottom: int) -> None:
        source, target = (job.tier, None) if job.promotion else (None, job.tier)
        start = self._y(max(job.submitted, min(rows)), source, rows)
        under_way = job.ended is None and not job.raised
        end = bottom - 6 if under_way else self._end(job, start, rows, bottom)
        kind = "job up" if job.promotion else "job down"
        with pen.group("job-arrow", {"data-job": job.number, "data-result": job.result}):
            pen.put("title", {}, sentence_of(job))
            pen.line(
                (self.x_of(source), start),
                (self.x_of(target), max(end, start)),
                f"{kind} {job.result.replace(' ', '-')}",
                **{"marker-end": "url(#head)"},
            )
            self._label(pen, job, source, start)
            if job.reported in rows:
                self._taken(pen, job, rows)

    def _y(self, number: int, lane: int | None, rows: dict[int, tuple[int, int]]) -> int:
        """Where the next label of a row goes."""
        place = -1 if lane is None else lane
        self._used[number, place] += 1
        return rows[number][0] + LINE * self._used[number, place]

    def _end(self, job: Job, start: int, rows: dict[int, tuple[int, int]], bottom: int) -> int:
        if job.raised or job.ended is None:
            return start
        y, height = rows.get(job.ended, (bottom, 0))
        return start if job.ended == job.submitted else y + height // 2

    def _label(self, pen: Pen, job: Job, source: int | None, y: int) -> None:
        text = label_of(job)
        if job.promotion:
            pen.text(self.x_of(source) - 6, y - 3, text, "job-label", anchor="end")
        else:
            pen.text(self.x_of(source) + 6, y - 3, text, "job-label")

    def _taken(self, pen: Pen, job: Job, rows: dict[int, tuple[int, int]]) -> None:
        assert job.reported is not None
        y, height = rows[job.reported]
        place = self._used[job.reported, -2]
        self._used[job.reported, -2] += 1
        x = self.x_of(None) - 8 - place * CHARACTER * 3
        pen.text(x, y + height // 2 + 4, f"{job.number}{SIGNS[job.result]}", "job-label", anchor="end")
