"""Write the tables of docs/performance.md, each with the command and the machine that made it."""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import ipseval
from reproductions.tables import commit, write_tables

PACKAGES = ("numpy", "numba")


def add_write_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the page."""
    parser.add_argument(
        "--write", type=Path, metavar="PAGE", help="put the table into this page, as docs/performance.md"
    )


def deliver(name: str, table: str, page: Path | None, packages: tuple[str, ...] = PACKAGES) -> None:
    """Print a table with the line that says how it was made, and put both into the page if there is one."""
    text = f"{table}\n\n{describe_run(packages)}"
    print(f"\n{text}", flush=True)
    if page is not None:
        write_tables({name: text}, page)


def describe_run(packages: tuple[str, ...] = PACKAGES) -> str:
    """Return one line with the command, the processor, the kernels of BLAS, the versions and the commit."""
    versions = [f"{name} {installed_version(name)}" for name in packages]
    parts = [
        f"`{command_line()}`",
        f"{describe_processor()}, {os.cpu_count()} cores",
        describe_blas(),
        f"Python {platform.python_version()}",
        f"ipseval {ipseval.__version__} at {commit()}",
        *versions,
    ]
    return f"Made by {'; '.join(parts)}."


def command_line() -> str:
    """Return the command without the option that names the page, and without names of folders."""
    words = sys.argv[1:]
    if "--write" in words:
        place = words.index("--write")
        del words[place : place + 2]
    words = ["FOLDER" if Path(word).is_dir() else word for word in words]
    script = f"benchmarks/{Path(sys.argv[0]).name}"
    return shlex.join(["python", script, *words])


def describe_blas() -> str:
    """Return the library of BLAS that NumPy uses, and the kernels that run."""
    from threadpoolctl import threadpool_info

    for library in threadpool_info():
        # SciPy brings a copy of its own, which no measured product uses.
        if library["user_api"] == "blas" and "scipy.libs" not in library["filepath"]:
            name = library["internal_api"].replace("openblas", "OpenBLAS")
            kernels = library.get("architecture", "unknown")
            return f"{name} {library['version']} with {kernels} kernels"
    return "no known BLAS"


def describe_processor() -> str:
    """Return the model of the processor, and whether it has AVX-512."""
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return platform.processor()
    fields = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    if "model name" not in fields:
        return platform.processor()
    vectors = "AVX-512" if "avx512f" in fields.get("flags", "").split() else "no AVX-512"
    model = f"family {fields.get('cpu family')} model {fields.get('model')}"
    return f"{fields['model name']}, {model}, {vectors}"


def installed_version(name: str) -> str:
    """Return the version of a distribution, or that it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
