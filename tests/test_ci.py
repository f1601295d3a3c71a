"""The script of the checks for a change: what counts as changed, and missing tools."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / ".ci" / "run"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="the script of the checks is not here")


def run_function(name: str, *arguments: str, cwd: Path, **environment: str) -> tuple[int, str]:
    """Return the exit code and the output of one function of the script."""
    text = SCRIPT.read_text("utf-8")
    (body,) = re.findall(rf"^{name}\(\) {{$.*?^}}$", text, re.MULTILINE | re.DOTALL)
    command = ["bash", "-c", f'set -euo pipefail\n{body}\n{name} "$@"', "bash", *arguments]
    variables = {name: value for name, value in os.environ.items() if name != "BASE"}
    done = subprocess.run(
        command, cwd=cwd, env=variables | environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def git(folder: Path, *arguments: str, date: str = "2026-01-01T00:00:00Z") -> str:
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    names = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *names, *arguments],
        cwd=folder,
        env=os.environ | dates,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commit(folder: Path, name: str, date: str = "2026-01-01T00:00:00Z") -> str:
    path = folder / name
    path.write_text(path.read_text() + "x" if path.exists() else "x")
    git(folder, "add", name)
    git(folder, "commit", "-q", "-m", name, date=date)
    return git(folder, "rev-parse", "HEAD")


def test_a_change_is_compared_with_the_commit_where_its_branch_left_main(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    first = commit(tmp_path, "docs")
    commit(tmp_path, "ipseval")
    assert run_function("changed", "docs", cwd=tmp_path)[0] == 0  # on main everything counts as changed
    git(tmp_path, "checkout", "-q", "-b", "branch")
    for date in ("2026-01-02T00:00:00Z", "1999-01-02T00:00:00Z"):  # no rule reads it
        commit(tmp_path, "tests", date)
        assert run_function("changed", "tests", cwd=tmp_path)[0] == 0
        assert run_function("changed", "docs", cwd=tmp_path)[0] == 1
        assert run_function("changed", "ipseval", "docs", cwd=tmp_path)[0] == 1
    assert run_function("changed", "ipseval", cwd=tmp_path, BASE=first)[0] == 0
    assert run_function("changed", "docs", cwd=tmp_path, BASE=first)[0] == 1
    unknown = "0" * 40  # the base of the first push of a branch
    assert run_function("changed", "docs", cwd=tmp_path, BASE=unknown)[0] == 1


def test_a_missing_tool_stops_the_script_and_is_named(tmp_path):
    assert run_function("need", "git", "git", cwd=tmp_path) == (0, "")
    (tmp_path / "bash").symlink_to("/bin/bash")
    code, output = run_function("need", "no-such-program", "its-package", cwd=tmp_path, PATH=str(tmp_path))
    assert (code, output) == (1, "no-such-program is missing: apt-get install its-package\n")


def test_the_script_reads_no_date():
    text = SCRIPT.read_text("utf-8")
    assert not re.search(
        r"\bdate\b(?! \+)|%ct|%cd|--before|--since|\$RANDOM|\$SECONDS", re.sub("#.*", "", text)
    )


def test_actions_and_workflows_can_be_parsed():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    root = SCRIPT.parents[1]
    workflows = sorted((root / ".github").rglob("*.yml"))
    assert len(workflows) > 3
    for path in (root / "action.yml", *workflows):
        assert isinstance(yaml.safe_load(path.read_text("utf-8")), dict)


def test_the_commands_of_the_readme_are_run_and_a_readme_without_both_is_an_error(tmp_path):
    shutil.copy(SCRIPT.parents[1] / "README.md", tmp_path)
    status, first = run_function("command_of_readme", "1", cwd=tmp_path)
    assert (status, first.split()[-2:]) == (0, ["ipseval", "demo"])
    status, second = run_function("command_of_readme", "2", cwd=tmp_path)
    assert (status, second.split()[-3:]) == (0, ["python", "-m", "pytest"])
    (tmp_path / "README.md").write_text("```sh\nipseval demo\n```\n")
    assert run_function("command_of_readme", "1", cwd=tmp_path)[0] != 0
    # An error within `bash -c "$(…)"` would be ignored, so that no test runs.
    assert '"$(command_of_readme' not in SCRIPT.read_text("utf-8")
