"""Measure how large the wheel is, and how much space it and its dependencies take once they are installed.

    python benchmarks/installation_size.py                      # needs a package registry, as pip does
    python benchmarks/installation_size.py --write docs/faq.md

The wheel is built, and installed into a new environment, first without extras and then with the extras that the
pages advise. The size of a distribution is that of its installed files, without compiled bytecode. Sizes depend
on the system and on the versions, which the table names.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import Distribution, distributions
from pathlib import Path

from page import add_write_option

import ipseval
from reproductions.tables import markdown, write_tables

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "plot,parquet,fast"
MEGABYTE = 1e6
SMALL = 5  # megabytes; smaller distributions share a row
TOOLS = {"pip", "setuptools", "wheel"}  # they are in every environment


def build_wheel(python: Path, folder: Path) -> Path:
    """Build the wheel of the project, and return its path."""
    command = [
        str(python),
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(command, check=True)
    return next(folder.glob("*.whl"))


def make_environment(folder: Path) -> Path:
    """Make an empty environment, and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install(python: Path, *requirements: str) -> None:
    """Install packages into an environment, none of which is compiled here."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *requirements]
    subprocess.run(command, check=True)


def find_packages(python: Path) -> Path:
    """Return the folder of the installed packages of an environment."""
    command = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


def measure_distribution(distribution: Distribution) -> float:
    """Return the size of the files of a distribution in megabytes, without bytecode."""
    n_bytes = 0
    for file in distribution.files or ():
        path = Path(str(distribution.locate_file(file)))
        if path.suffix != ".pyc" and path.is_file():
            n_bytes += path.stat().st_size
    return n_bytes / MEGABYTE


def measure_packages(python: Path) -> dict[str, float]:
    """Return the size of every distribution of an environment, with its version."""
    sizes = {}
    for distribution in distributions(path=[str(find_packages(python))]):
        name = distribution.metadata["Name"]
        if name.lower() not in TOOLS:
            sizes[f"{name} {distribution.version}"] = measure_distribution(distribution)
    return sizes


def tabulate(wheel: Path, core: dict[str, float], extended: dict[str, float]) -> str:
    """Return the table: the wheel, large and small distributions, and the sums."""
    added = {name: size for name, size in extended.items() if name not in core}
    rows = [("the wheel of ipseval, as it is downloaded", format_size(wheel.stat().st_size / MEGABYTE))]
    rows += tabulate_distributions(core)
    rows.append(
        (f"**all of `pip install .`**: {len(core)} distributions", f"**{format_size(sum(core.values()))}**")
    )
    rows += tabulate_distributions(added)
    total = format_size(sum(extended.values()))
    rows.append((f'**all of `pip install ".[{EXTRAS}]"`**: {len(extended)} distributions', f"**{total}**"))
    return markdown(("installed", "size, MB"), rows)


def tabulate_distributions(sizes: dict[str, float]) -> list[tuple[str, str]]:
    """Return a row for each large distribution, and one for all small ones."""
    large = {name: size for name, size in sizes.items() if size >= SMALL}
    rows = [(name, format_size(size)) for name, size in sorted(large.items(), key=lambda pair: -pair[1])]
    n_small = len(sizes) - len(large)
    rows.append((f"{n_small} smaller distributions", format_size(sum(sizes.values()) - sum(large.values()))))
    return rows


def format_size(megabytes: float) -> str:
    """Return a size with two significant digits."""
    return f"{float(f'{megabytes:.2g}'):g}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_write_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = make_environment(folder / "environment")
        wheel = build_wheel(python, folder)
        install(python, str(wheel))
        core = measure_packages(python)
        install(python, f"{wheel}[{EXTRAS}]")
        table = tabulate(wheel, core, measure_packages(python))
    system = f"{platform.system()} {platform.machine()}; Python {platform.python_version()}"
    made = f"Made by `python benchmarks/installation_size.py`; {system}; ipseval {ipseval.__version__}."
    print(f"{table}\n\n{made}")
    if options.write is not None:
        write_tables({"installation-size": f"{table}\n\n{made}"}, options.write)


if __name__ == "__main__":
    main()
