"""Check a bill of materials: every component has a licence, and one that an MIT library may need.

python packaging/licences.py dist/ipseval.cdx.json
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

# Short names of SPDX, and the words by which packages of before SPDX name the same.
ALLOWED = re.compile(
    r"MIT(-CMU)?|BSD(-\d-Clause)?|0BSD|Apache(-2\.0)?|PSF(-2\.0)?|Python(-2\.0)?|ISC|Zlib|Unlicense|CC0-1\.0|MPL-2\.0|HPND"
    r"|LLVM-exception|GCC-exception-3\.1|BSL-1\.0|OFL-1\.1|Unicode-DFS-2016",
    re.IGNORECASE,
)
WORDS = (
    *("mit license", "bsd license", "apache software license", "python software foundation license"),
    *("mozilla public license 2.0 (mpl 2.0)", "isc license (iscl)", "apache license"),
)
# A library that is linked, not copied: its runtime exception lets any program use it.
EXCEPTED = ("GPL-3.0-or-later WITH GCC-exception-3.1", "GPL-3.0-with-GCC-exception")


def names(component: dict[str, Any]) -> list[str]:
    """Return what a component says of its licence: expressions, short names, or words."""
    found = []
    for entry in component.get("licenses", []):
        licence = entry.get("license", {})
        found.append(entry.get("expression") or licence.get("id") or licence.get("name") or "")
    return [name for name in found if name]


def allowed(name: str) -> bool:
    """Return whether every part of a licence expression is on the list; of alternatives one is enough."""
    text = name.removeprefix("License :: OSI Approved :: ").strip()
    if text.lower() in WORDS or text.lower().startswith(("bsd", "mit", "apache")):
        return True
    for exception in EXCEPTED:
        text = text.replace(exception, "MIT")
    parts = [part.strip(" ()") for part in re.split(r"\bAND\b|\bWITH\b", text, flags=re.IGNORECASE)]
    return all(
        any(ALLOWED.fullmatch(one.strip(" ()")) for one in re.split(r"\bOR\b", part, flags=re.IGNORECASE))
        for part in parts
    )


def main(bill: Path) -> None:
    """Print every component with its licence; fail if one has none, or one that is not on the list."""
    components = json.loads(bill.read_text("utf-8"))["components"]
    wrong = []
    for component in sorted(components, key=lambda one: one["name"].lower()):
        found = names(component)
        # Some packages give the whole text as a name: its first line says which it is.
        short = [name.strip().splitlines()[0][:60] for name in found]
        good = any(allowed(name.strip().splitlines()[0]) for name in found)
        print(f"{component['name']:24} {component.get('version', ''):12} {' | '.join(short) or 'none'}")
        if not good:
            wrong.append(f"{component['name']}: {' | '.join(short) or 'no licence'}")
    if not components or wrong:
        sys.exit("\n".join(["licences that are missing or not on the list:", *wrong]))
    print(f"{len(components)} components, all with a licence on the list")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
