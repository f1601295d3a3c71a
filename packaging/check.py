"""Compare what describes the project in several places: versions, dependencies, links.

    python packaging/check.py dist/ipseval-X-py3-none-any.whl dist/ipseval-X.tar.gz [vX]

Wheel and source come from `python -m build`; the last argument is the tag of a release.
"""

from __future__ import annotations

import email
import hashlib
import re
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from rattler_build import Stage0Recipe
from readme_renderer import markdown

ROOT = Path(__file__).resolve().parents[1]
RECIPE = ROOT / "packaging" / "conda-forge" / "recipe.yaml"
PAGE = re.compile(
    r"https://(?:raw\.githubusercontent\.com/ipseval/ipseval|github\.com/ipseval/ipseval/blob)/v([^/]+)/([^)#\s]+)"
)


def metadata_of(wheel: Path) -> Message:
    """Return the metadata in a wheel; the text of its page is the payload."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_string(archive.read(name).decode("utf-8"))


def of_page(page: str, version: str, files: set[str]) -> list[str]:
    """Return what is wrong with the page that PyPI shows."""
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    relative = [link for link in links if not link.startswith(("https://", "#"))]
    wrong = [f"the page on PyPI has a relative link: {link}" for link in relative]
    for found, path in PAGE.findall(page):
        if found != version:
            wrong.append(f"the page on PyPI links to {found}, not {version}: {path}")
        if path not in files and not any(name.startswith(f"{path.rstrip('/')}/") for name in files):
            wrong.append(f"the page on PyPI links to {path}, which the source does not have")
    if markdown.render(page) is None:
        wrong.append("the page cannot be rendered as PyPI renders it")
    return wrong


def of_recipe(metadata: Message, version: str) -> list[str]:
    """Return where the recipe of conda-forge, rendered by rattler-build, differs from the metadata."""
    recipe: dict[str, Any] = Stage0Recipe.from_file(RECIPE).render()[0].recipe.to_dict()
    oldest = str(metadata["Requires-Python"]).removeprefix(">=")
    wanted = {f"python >={oldest}"}
    for line in metadata.get_all("Requires-Dist") or []:
        requirement = Requirement(line)
        if (
            requirement.marker is None
        ):  # conda has the rest: what a later Python needs is what it has builds of
            wanted.add(f"{requirement.name} {requirement.specifier}")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    build = {re.sub(r"(?<=[a-z])(?=[><=])", " ", line) for line in project["build-system"]["requires"]}
    scripts = {f"{name} = {target}" for name, target in project["project"]["scripts"].items()}
    pairs = {
        "version": ({recipe["package"]["version"]}, {version}),
        "run": (set(recipe["requirements"]["run"]), wanted),
        "host": (set(recipe["requirements"]["host"]) - {"pip"}, build | {f"python {oldest}.*"}),
        "entry points": (set(recipe["build"]["python"]["entry_points"]), scripts),
        "licence": ({recipe["about"]["license"]}, {metadata["License-Expression"]}),
    }
    return [
        f"{RECIPE.name}, {what}: {sorted(is_)} should be {sorted(should)}"
        for what, (is_, should) in pairs.items()
        if is_ != should
    ]


def main(arguments: list[str]) -> None:
    """Check all; print what was compared, or fail with what is wrong."""
    wheel, source = (next(Path(one) for one in arguments if one.endswith(end)) for end in (".whl", ".tar.gz"))
    tags = [one for one in arguments if one.startswith("v")]
    metadata = metadata_of(wheel)
    version = metadata["Version"]
    with tarfile.open(source) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    wrong = of_page(str(metadata.get_payload()), version, files) + of_recipe(metadata, version)
    if str(citation["version"]) != version:
        wrong.append(f"CITATION.cff has version {citation['version']}, not {version}")
    if tags and tags != [f"v{version}"]:
        wrong.append(f"the tag is {tags[0]}, the version {version}")
    if not re.search(rf"^## \[{re.escape(version)}\]", changelog, re.MULTILINE):
        wrong.append(f"CHANGELOG.md has no part [{version}]")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{version}: page, recipe, citation and changelog agree; {len(files)} files in the source")
    print(f"sha256 of the source, for the recipe: {hashlib.sha256(source.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main(sys.argv[1:])
