"""Who may import whom, and whether what is built is what is in the repository."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HOUSES = ("model", "impl", "specs", "ci")

# What each house may import of ours besides itself. The first entry that holds a file counts.
MAY_IMPORT = {
    "model": (),
    "impl": (),
    "specs/subjects": ("model", "impl"),
    "specs/mutants": ("model", "impl"),
    "specs/contracts": ("model", "impl"),
    "specs": ("model",),
    "ci": ("specs", "model"),
}


def sources(*folders: str) -> list[Path]:
    return sorted(file.relative_to(ROOT) for folder in folders for file in (ROOT / folder).rglob("*.py"))


def imports(file: Path) -> Iterator[str]:
    """The absolute names of the modules that a file imports, wherever in the file; relative imports resolved."""
    package = ("evictable", *file.parts[:-1])
    for node in ast.walk(ast.parse((ROOT / file).read_bytes(), str(file))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join((*base, *([node.module] if node.module else [])))
            # In `from evictable import model` it is the name that tells the house.
            yield from (f"{origin}.{alias.name}" for alias in node.names) if origin == "evictable" else [origin]


def house_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "evictable" and len(parts) > 1 else None


@pytest.mark.parametrize("file", sources(*HOUSES), ids=str)
def test_imports_run_one_way(file: Path) -> None:
    allowed = next(may for place, may in MAY_IMPORT.items() if file.is_relative_to(place))
    used = {house for module in imports(file) if (house := house_of(module))}
    assert set() == used - {file.parts[0], *allowed}


@pytest.mark.parametrize("file", sources("model"), ids=str)
def test_the_model_needs_nothing_but_attrs(file: Path) -> None:
    tops = {module.partition(".")[0] for module in imports(file)}
    assert set() == tops - {"attrs", "attr", "evictable"} - sys.stdlib_module_names


@pytest.mark.parametrize("file", sources(*HOUSES, "tests"), ids=str)
def test_nothing_imports_a_top_level_folder(file: Path) -> None:
    """A bare `import model` would load every class a second time."""
    tops = {module.partition(".")[0] for module in imports(file)}
    assert set() == tops & set(HOUSES)


def packages() -> set[str]:
    return {".".join(("evictable", *file.parts[:-1])) for file in sources(*HOUSES)}


def test_pyproject_lists_every_package() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert sorted(packages()) == sorted(setuptools["packages"])
    assert {f"evictable.{house}": house for house in HOUSES} == setuptools["package-dir"]


def test_every_package_has_an_init_file() -> None:
    folders = {file.parent for file in sources(*HOUSES)}
    assert [] == sorted(str(folder) for folder in folders if not (ROOT / folder / "__init__.py").is_file())


def run(*command: str | Path, cwd: Path) -> str:
    # Coverage and pytest put things into the environment that do not belong into an installation.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE_", "PYTHON"))}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert 0 == done.returncode, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a clean copy: in the working tree, build/ keeps modules that were deleted long ago."""
    place = tmp_path_factory.mktemp("wheel")
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (place / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / "copy" / name)
    # The build tools are here already, so there is no need to fetch them into an isolated environment.
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", place, cwd=place / "copy")
    (built,) = place.glob("*.whl")
    return built


def test_the_wheel_holds_the_sources(wheel: Path) -> None:
    expected = {str(Path("evictable", file)): (ROOT / file).read_bytes() for file in sources(*HOUSES)}
    expected |= {f"evictable/{house}/py.typed": b"" for house in HOUSES}
    golden = [file for pattern in ("*.jsonl", "README.md") for file in (ROOT / "specs" / "golden").glob(pattern)]
    pictures = [file for pattern in ("*.html", "*.css", "*.js") for file in (ROOT / "ci" / "pictures").glob(pattern)]
    data = [*golden, *pictures, ROOT / "ci" / "found.json"]
    expected |= {str(Path("evictable", file.relative_to(ROOT))): file.read_bytes() for file in data}
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
        assert sorted(expected) == sorted(names)
        assert expected == {name: archive.read(name) for name in names}
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in archive.namelist())


def test_the_wheel_works_where_nothing_else_is(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv")
    binaries = tmp_path / "venv" / "bin"
    pip = (sys.executable, "-m", "pip", "--python", binaries / "python", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--constraint", ROOT / "tests" / "requirements.lock", wheel, cwd=tmp_path)
    run(
        *(binaries / "evictable", "check", "impl", "--max-calls", "2000", "--seed", "1", "--html", "page.html"),
        cwd=tmp_path,
    )
