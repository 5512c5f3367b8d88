"""The pytest plugin: ``pytest --evictable-subject=package.module:factory``. Loads nothing heavy until it is used."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

OPTIONS = "evictable"
"""The group of the options in ``pytest --help``."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup(OPTIONS, "conformance of KV-cache offload managers and cache policies (evictable)")
    add = group.addoption
    add(
        "--evictable-subject",
        action="append",
        default=[],
        metavar="SUBJECT",
        help="Judge package.module:factory (or a cache policy class, or vllm==0.33.0): one test a law and discipline.",
    )
    add("--evictable-host", metavar="SUBJECT", help="The manager that hosts a cache policy class, as vllm==0.33.0.")
    add(
        "--evictable-discipline",
        choices=("contract", "careless", "hostile", "all"),
        default="contract",
        help="What the caller promises (default: contract).",
    )
    add("--evictable-policy", default="lru", metavar="NAME", help="The manager's cache policy (default: lru).")
    add("--evictable-profile", default="auto", metavar="NAME", help="Rules of eviction to judge by (default: auto).")
    add("--evictable-max-time", type=float, metavar="SECONDS", help="For each discipline (default: 20).")
    add("--evictable-max-calls", type=int, metavar="N", help="Likewise; the same seed then gives the same result.")
    add("--evictable-seed", type=int, default=0, metavar="N", help="(default: 0)")
    add("--evictable-trace-dir", default="traces", metavar="DIR", help="Where counterexamples go (default: traces).")
    add("--evictable-replay", metavar="TRACE", help="Let the conformance classes play this trace, and search nothing.")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "evictable: a law of the conformance suite (evictable)")
    if config.getoption("evictable_subject"):
        from evictable.ci.conformance import check_options

        check_options(config)


# Around all others, which then see what is added: -k and -m choose from it, and xdist reads its groups.
@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    if config.getoption("evictable_subject"):
        from evictable.ci.conformance_items import items_for

        items.extend(items_for(session))
    yield


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "evictable_case" in metafunc.fixturenames:
        from evictable.ci.conformance import cases_for

        metafunc.parametrize("evictable_case", cases_for(metafunc.config, metafunc.cls))
