"""The kinds of bugs that the mutants are examples of, from the field."""

from __future__ import annotations

FROM_THE_FIELD: dict[str, str] = {
    "late-membership": "membership is changed after the field that classifies it",
    "pin-without-job": "a pin or a reservation is taken, and no job is registered for it",
    "error-path": "what was taken is kept where something fails or raises",
    "double-unpin": "something is given back that was not taken, or a second time",
    "generation": "a key is taken for the identity of what was stored under it before",
    "duplicate": "a key that is named twice in a batch",
    "stale-heap": "an entry of a lazy heap is taken for current",
    "hit-is-no-pin": "a HIT, or having been told slots, is taken for a pin",
    "pending-misread": "a store in flight is read as a miss, or as ready",
    "miscounted": "a counter moves for something never counted, or does not move for something that is",
    "clear-after-yield": "a queue is cleared when its consumer comes back, which it need not",
    "forgetful-reset": "a reset forgets one structure of several",
    "early-reuse": "a slot is used again before its transfer has ended",
    "boundary": "off by one: an exact fit, the last slot, the last pin",
}
"""Each must have a mutant."""

OTHERS: dict[str, str] = {
    "missed-step": "a step of the life cycle is left out, or goes elsewhere",
    "slots": "a slot is lost, doubled or mixed up",
    "protection": "what must stay may be evicted",
    "order": "the next to be evicted is another",
    "refusal": "refused where there is room, or not refused in time to leave all as it was",
    "owner": "a completion by somebody else, or the own one not known",
    "answer": "the answer is another",
    "events": "what is announced is not what happened",
    "requests": "the beginning or the end of a request is taken for more, or less, than it is",
    "tiers": "another tier, or only some of them",
}

KINDS = FROM_THE_FIELD | OTHERS
