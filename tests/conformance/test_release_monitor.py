"""The monitor on published releases: a defect in the live manager, and the plug-in that puts it on in a server.

A process holds one release only, so each test is a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.release

SEEDED = """
import json, random, sys
from evictable.specs import subjects
from evictable.specs.callers.workload import Workload
from evictable.specs.monitor import watch
from evictable.specs.session import outcome_of
from evictable.specs.subjects.base import Setup

name, seeded, level, folder = sys.argv[1:]
subject = subjects.load(f"mutant:{seeded}@vllm=={name}").make(Setup(1000))
heard, made = [], [None]
monitor = watch(
    subject.manager,
    level=level,
    dump_dir=folder,
    log=None,
    subject=f"mutant:{seeded}@vllm=={name}",
    on_violation=lambda found: heard.append([made[-1], found.call, found.law, str(found.path)]),
)

def perform(call):
    made.append(call.name)
    return outcome_of(subject, call)

rng = random.Random(3)
requests = (tuple(range(20 * at, 20 * at + 20)) for at in (rng.randrange(400) for _ in range(2000)))
for tally in Workload(perform, 1000, stop=lambda: bool(heard)).run(requests):
    pass
print(json.dumps({"heard": heard, "failure": repr(monitor.failure), "calls": len(made)}))
"""

PLUGGED_IN = """
import json, os, sys
from types import SimpleNamespace
from pathlib import Path
from evictable.specs.subjects import standins

os.environ["EVICTABLE_MONITOR"] = "readback"
vllm = standins.load(Path(sys.argv[1]))
from evictable.specs.monitor import plugin

plugin.register()
plugin.register()
spec_class = sys.modules[plugin.SPEC_MODULE].CPUOffloadingSpec
spec = object.__new__(spec_class)
vars(spec).update(
    _manager=None,
    num_blocks=4,
    num_chunks=4,
    eviction_policy="lru",
    cache_policy_module_path=None,
    extra_config={},
    kv_events_config=SimpleNamespace(enable_kv_cache_events=True),
    cpu_info=None,
)
manager = spec.get_manager()
same = spec.get_manager() is manager
request = vllm.base.ReqContext(req_id="r1")
key = bytes(12)
manager.on_new_request(request)
manager.prepare_store([key], request)
manager.complete_store([key], request)
manager.prepare_load([key], request)
manager._policy.get(key).ref_cnt += 1
manager.complete_load([key], request)
monitor = manager._evictable_monitor
print(json.dumps({"same": same, "found": [[one.law, one.call] for one in monitor.violations]}))
"""


def in_fresh_process(script: str, *arguments: object) -> Any:
    call = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=100)
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("version", ["0.24.0", "0.33.0"])
@pytest.mark.parametrize(
    ("seeded", "level", "call", "law"),
    [
        ("counter-forgets-unpins", "counters", "complete_load", "counters-agree"),
        ("second-reader-not-counted", "touched", "prepare_load", "legal-step"),
        ("no-mark-when-unpinned", "readback", "complete_load", "evictable-iff-idle"),
    ],
)
def test_a_seeded_defect_is_heard_dumped_and_shrunk(
    version: str,
    seeded: str,
    level: str,
    call: str,
    law: str,
    release: Callable[[str], Path],
    evictable: Callable[..., subprocess.CompletedProcess[str]],
    folder: Path,
) -> None:
    release(version)
    made = in_fresh_process(SEEDED, version, seeded, level, folder / "traces")
    assert "None" == made["failure"]
    ((during, told, broken, path),) = made["heard"]
    assert (call, call, law) == (during, told, broken)
    done = evictable("shrink", path, "-o", "small.jsonl")
    assert 1 == done.returncode, done.stderr
    assert done.stdout.splitlines()[-2].endswith("no call and no key can be left out")
    small = (folder / "small.jsonl").read_text().splitlines()
    assert law == json.loads(small[0])["law"]
    assert 8 >= len(small) - 1


@pytest.mark.parametrize("version", ["0.24.0", "0.29.0", "0.33.0"])
def test_the_plug_in_watches_what_a_spec_makes(
    version: str, release: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVICTABLE_MONITOR_DIR", str(tmp_path))
    answer = in_fresh_process(PLUGGED_IN, release(version))
    assert {"same": True, "found": [["legal-step", "complete_load"]]} == answer
    assert 1 == len(list(tmp_path.iterdir()))
