"""Run the first page's examples, fits of gamma, frozen numbers and the demonstration as on other processors.

    python tests/processors.py              every setting this processor can take, and two versions of pandas
    python tests/processors.py --suite      the same with the whole fast suite: both commands of the README
    python tests/processors.py --one        two threads, and another processor with one: for CI
    python tests/processors.py --no-pandas  without the versions of pandas, which need a network

BLAS, NumPy's loops and the number of threads decide the last bit of a product. Nothing that is printed may
depend on it: all settings must pass the same tests and print the same demonstration.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

ROOT = Path(__file__).resolve().parents[1]
TESTS = ["tests/docs/test_readme.py", "tests/propensity/test_gamma.py", "tests/contracts/test_numbers.py"]
PANDAS = ("2.3", "3.1")


def settings() -> dict[str, dict[str, str]]:
    """Return the environment of each setting that this processor can take."""
    features = [name for name in __cpu_dispatch__ if __cpu_features__[name]]
    wide = [name for name in features if "AVX512" in name or name == "X86_V4"]
    cores = ["Haswell", "Zen"] + (["SkylakeX"] if wide else [])
    table = {
        "as it is": {},
        "2 threads": dict.fromkeys(("OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "2"),
    }
    table |= {f"kernels of {core}": {"OPENBLAS_CORETYPE": core} for core in cores}
    if wide:
        table["NumPy without AVX-512"] = {"NPY_DISABLE_CPU_FEATURES": " ".join(wide)}
    old = {"OPENBLAS_CORETYPE": "Nehalem"}
    table["a processor of 2008"] = old | (
        {"NPY_DISABLE_CPU_FEATURES": " ".join(features)} if features else {}
    )
    return table


def run(name: str, changed: dict[str, str], tests: list[str]) -> str:
    """Run tests and demonstration in one setting; return what the demonstration prints."""
    print(f"== {name}", flush=True)
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    path = os.pathsep.join(part for part in (changed.get("PYTHONPATH"), str(ROOT)) if part)
    environment = {**os.environ, **one_thread, **changed, "PYTHONPATH": path}
    commands = (
        [sys.executable, "-m", "pytest", "-q", *tests],
        [sys.executable, "-W", "error", "-m", "ipseval", "demo", "--picture", ""],
    )
    printed = ""
    for command in commands:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name}: {' '.join(command[1:])} failed\n{done.stdout}\n{done.stderr}")
        printed = done.stdout
    return printed


def main() -> None:
    """Run every setting and compare what the demonstrations print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--one", action="store_true")
    parser.add_argument("--no-pandas", action="store_true")
    parser.add_argument("--suite", action="store_true")
    options = parser.parse_args()
    chosen = settings()
    if options.one:
        chosen = {name: chosen[name] for name in ("2 threads", "a processor of 2008")}
    with tempfile.TemporaryDirectory() as folder:
        if not (options.one or options.no_pandas):
            for version in PANDAS:
                target = str(Path(folder) / version)
                pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target]
                subprocess.run([*pip, f"pandas=={version}.*", "pytz", "tzdata"], check=True)
                chosen[f"pandas {version}"] = {"PYTHONPATH": target}
        tests = [] if options.suite else TESTS
        printed = {name: run(name, changed, tests) for name, changed in chosen.items()}
    (usual, first), *others = printed.items()
    for name, text in others:
        if text != first:
            sys.exit(f"the demonstration prints something else: {name}\n{text}\n{usual}:\n{first}")
    print(f"{len(printed)} settings, one result")


if __name__ == "__main__":
    main()
