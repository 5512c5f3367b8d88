"""Marks a pinned block on a subject's LRU policy, judged, and prints what becomes of the next eviction."""

import sys

from evictable.model.policy_calls import INSERT, MARK, PolicyCall
from evictable.specs.callers.disciplines import CARELESS
from evictable.specs.policy_level.session import PolicySession, consequence
from evictable.specs.subjects.policies import load_policy

kind = load_policy(sys.argv[1], "lru")
session = PolicySession.begin(kind, 1, kind.profile, CARELESS, (0,))
session.step(PolicyCall(INSERT, (0,), ref_cnt=1))
session.step(PolicyCall(MARK, (0,)))
print(consequence(session))
