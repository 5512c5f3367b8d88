"""The offload subtree of a vLLM tree loads among stand-ins, and does what it should there.

A process holds one tree only, so each test loads in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

HEAD = """
import json, sys, time
from pathlib import Path
from evictable.specs.errors import UsageError
from evictable.specs.subjects import standins

root = Path(sys.argv[1])
answer = {}
"""

DRIVE = """
started = time.perf_counter()
vllm = standins.load(root)
answer["seconds"] = time.perf_counter() - started
answer["once"] = standins.load(root / "vllm" / "..") is vllm

metrics = vllm.common.CPUOffloadingMetrics
a, b = (bytes([n] * 8) + bytes(4) for n in (1, 2))
for policy in ("lru", "arc"):
    manager = vllm.manager.CPUOffloadingManager(2, policy, enable_events=True)
    request = vllm.base.ReqContext(req_id="r1")
    manager.on_new_request(request)
    prepared = manager.prepare_store([a, b], request)
    manager.complete_store([a], request)
    values = manager.get_stats().data["data"]
    answer[policy] = {
        "keys_to_store": [key in prepared.keys_to_store for key in (a, b)],
        "block_ids": prepared.store_spec.block_ids.tolist(),
        "loaded from": manager.prepare_load([a], request).block_ids.tolist(),
        "stored": [event.keys == [a] and not event.removed for event in manager.take_events()],
        "medium": str(getattr(manager.medium, "value", manager.medium)),
        "usage": list(values[metrics.CPU_CACHE_USAGE_PERC].items()),
        "write usage": list(values.get(getattr(metrics, "CPU_CACHE_WRITE_USAGE_PERC", ""), {}).values()),
        "allocations": list(values.get(getattr(metrics, "CPU_ALLOCATION_SIZE", ""), {}).values()),
        "policy": type(manager._policy) is {"lru": vllm.lru.LRUCachePolicy, "arc": vllm.arc.ARCCachePolicy}[policy],
    }
answer["tiering"] = issubclass(vllm.tiering.TieringOffloadingManager, vllm.base.OffloadingManager)
answer["left behind"] = sorted({name.split(".")[0] for name in sys.modules} & {"torch", "numpy", "typing_extensions"})
"""


def in_fresh_process(root: Path, script: str) -> Any:
    """What a script that knows `standins` and `root` leaves in `answer`."""
    call = [sys.executable, "-c", f"{HEAD}\n{script}\nprint(json.dumps(answer))", str(root)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=60)
    assert 0 == done.returncode, done.stderr
    assert "" == done.stderr
    return json.loads(done.stdout)


@pytest.mark.release
@pytest.mark.parametrize(
    ("version", "more"),
    [
        ("0.24.0", {"write usage": [], "allocations": []}),
        ("0.27.0", {"write usage": [0.5], "allocations": [[2]]}),
        ("0.33.0", {"write usage": [0.5], "allocations": [[2]]}),
    ],
)
@pytest.mark.parametrize("without", [(), ("numpy", "typing_extensions")], ids=["as installed", "bare"])
def test_release(
    version: str, more: Mapping[str, object], without: tuple[str, ...], release: Callable[[str], Path]
) -> None:
    hide = f"sys.modules.update(dict.fromkeys({without!r}))"
    answer = in_fresh_process(
        release(version), f"{hide}\n{DRIVE}\nanswer['hidden'] = [sys.modules[n] for n in {without!r}]"
    )

    expected = {
        "keys_to_store": [True, True],
        "block_ids": [0, 1],
        "loaded from": [0],
        "stored": [True],
        "medium": "CPU",
        "usage": [[[], 0.5]],
        "policy": True,
        **more,
    }
    assert expected == answer["lru"]
    assert expected == answer["arc"]
    assert answer["once"]
    assert answer["tiering"]
    assert "torch" not in answer["left behind"]
    assert [None for _ in without] == answer["hidden"]
    # Usually 0.05 s; the rest is for a slow machine.
    assert answer["seconds"] < 1


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The smallest tree that loads, to be spoiled by a test."""
    write(
        tmp_path,
        {
            "vllm/__init__.py": "raise RuntimeError('the real vllm')",
            "vllm/distributed/places.py": "import nowhere\nMEDIUM = 'CPU'\nLATER: str = 'DISK'\nNO = nowhere.f()",
            "vllm/distributed/kv_transfer/kv_connector/v1/offloading/metrics.py": "",
            "vllm/utils/math_utils.py": "ONE = 1",
            "vllm/v1/kv_offload/__init__.py": "",
            "vllm/v1/kv_offload/base.py": "",
            "vllm/v1/kv_offload/cpu/__init__.py": "",
            "vllm/v1/kv_offload/cpu/common.py": "",
            "vllm/v1/kv_offload/cpu/manager.py": "from vllm.v1.kv_offload.cpu.policies import lru",
            "vllm/v1/kv_offload/cpu/policies/base.py": "",
            "vllm/v1/kv_offload/cpu/policies/lru.py": "",
            "vllm/v1/kv_offload/cpu/policies/arc.py": "",
        },
    )
    return tmp_path


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


TRY = """
try:
    standins.load(root)
except UsageError as error:
    answer["error"] = str(error)
answer["left"] = [name for name in sys.modules if name.startswith("vllm")]
answer["finders"] = [type(finder).__name__ for finder in sys.meta_path if type(finder).__module__ == standins.__name__]
"""


@pytest.mark.parametrize(
    ("spoiled", "text", "culprit", "why"),
    [
        ("cpu/policies/lru.py", "def f(:", "cpu.policies.lru", "SyntaxError: invalid syntax (lru.py, line 1)"),
        ("cpu/policies/lru.py", "import nowhere", "cpu.policies.lru", "ModuleNotFoundError: No module named 'nowhere'"),
        ("cpu/policies/lru.py", "1 / 0", "cpu.policies.lru", "ZeroDivisionError: division by zero"),
        ("cpu/policies/arc.py", "raise ValueError('a\\nb')", "cpu.policies.arc", "ValueError: a"),
        (
            "cpu/manager.py",
            "from vllm.v1.kv_offload import gone",
            "cpu.manager",
            "ImportError: cannot import name 'gone' from 'vllm.v1.kv_offload' ({root}/vllm/v1/kv_offload/__init__.py)",
        ),
        (
            "base.py",
            "import vllm.v1.kv_offload.gone",
            "base",
            "ModuleNotFoundError: No module named 'vllm.v1.kv_offload.gone'",
        ),
    ],
)
def test_a_tree_that_cannot_be_imported_says_which_module(
    spoiled: str, text: str, culprit: str, why: str, tree: Path
) -> None:
    write(tree, {f"vllm/v1/kv_offload/{spoiled}": text})
    answer = in_fresh_process(tree, TRY)
    expected = f"{tree}: cannot import vllm.v1.kv_offload.{culprit} ({why.format(root=tree)})"
    assert {"error": expected, "left": [], "finders": []} == answer


def test_a_tree_that_was_mended_loads(tree: Path) -> None:
    write(tree, {"vllm/v1/kv_offload/base.py": "1 / 0"})
    mend = """
(root / "vllm/v1/kv_offload/base.py").write_text("mended = 1")
answer["mended"] = standins.load(root).base.mended
"""
    assert 1 == in_fresh_process(tree, f"{TRY}\n{mend}")["mended"]


def test_stand_ins_serve_as_what_they_stand_for(tree: Path) -> None:
    write(
        tree,
        {
            "vllm/v1/kv_offload/base.py": """
from abc import ABC, abstractmethod
from dataclasses import dataclass
import numpy as np
import torch
import torch.distributed as dist
import vllm.envs as envs
from torch import nn
from typing_extensions import TypedDict, override
from vllm import _custom_ops as ops
from vllm.distributed.places import LATER, MEDIUM, NO
from vllm.logger import init_logger
from vllm.platforms import current_platform
from vllm.triton_utils import HAS_TRITON, tl, triton
from vllm.utils import math_utils
from vllm.utils.func_utils import deprecated

logger = init_logger(__name__)
logger.warning_once("nothing is %s", "said")

class Layer(nn.Module, ABC):
    def __init__(self): self.weight = 1
    @abstractmethod
    def forward(self, x: torch.Tensor | None, y: list[torch.dtype]) -> "torch.Tensor": ...

@dataclass
class Page(ops.Page[int]):
    tensor: torch.Tensor | None = None

@triton.jit
def kernel(n: tl.constexpr): return n

@deprecated("for long")
def old(n): return n

class Named(TypedDict):
    name: str

class Child(Layer):
    @override
    def forward(self, x, y): return x

facts = {
    "constants": [MEDIUM, LATER, math_utils.ONE],
    "false": [bool(it) for it in (current_platform.is_cuda(), HAS_TRITON, envs.FLAG, NO, dist.is_initialized())],
    "true": [bool(it) for it in (Layer, Page(), Child())],
    "decorated": [kernel(1), old(2), Child().forward(3, [])],
    "fields": [hasattr(Page, "nothing"), hasattr(Page(), "nothing"), hasattr(torch, "__version__")],
    "array": np.array([1, 2], dtype=np.int64).tolist(),
    "typed": Named(name="x"),
}
"""
        },
    )
    script = "sys.modules.update(numpy=None, typing_extensions=None); answer.update(standins.load(root).base.facts)"
    expected = {
        "constants": ["CPU", "DISK", 1],
        "false": [False] * 5,
        "true": [True] * 3,
        "decorated": [1, 2, 3],
        "fields": [False] * 3,
        "array": [1, 2],
        "typed": {"name": "x"},
    }
    assert expected == in_fresh_process(tree, script)


def test_others_see_no_stand_ins(tree: Path) -> None:
    """Also a module of the tree that is imported late, in a call, leaves torch as others know it."""
    write(tree, {"vllm/v1/kv_offload/late.py": "import torch, torch.nn\nname = type(torch).__name__"})
    script = """
import types
torch = sys.modules["torch"] = types.ModuleType("torch")
standins.load(root)
import vllm.v1.kv_offload.late as late
answer.update(late=late.name, restored=sys.modules["torch"] is torch, more=[n for n in sys.modules if n == "torch.nn"])
"""
    assert {"late": "_StandIn", "restored": True, "more": []} == in_fresh_process(tree, script)


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("standins.load(root)", "this process holds the tree "),
        ("sys.modules['vllm'] = object()", "vllm is already imported in this process"),
    ],
)
def test_a_process_holds_one_tree(first: str, expected: str, tree: Path) -> None:
    script = f"""
{first}
try:
    standins.load(root.parent)
except RuntimeError as error:
    answer["error"] = str(error)
"""
    assert in_fresh_process(tree, script)["error"].startswith(expected)


def test_tiering_that_cannot_be_imported_is_a_wrong_use(tree: Path) -> None:
    write(tree, {"vllm/v1/kv_offload/tiering/manager.py": "1 / 0"})
    script = """
modules = standins.load(root)
try:
    modules.tiering
except UsageError as error:
    answer["error"] = str(error)
"""
    expected = f"{tree}: cannot import vllm.v1.kv_offload.tiering.manager (ZeroDivisionError: division by zero)"
    assert {"error": expected} == in_fresh_process(tree, script)
