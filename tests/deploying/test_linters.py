"""The container files and workflows pass the linters of their formats, where these are installed (extra ``real``)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ragsmith.deploying.kit import Kit

COPIED = Path(__file__).resolve().parents[2] / "docs" / "gate_workflow.yml"
UNPINNED = "unpinned-uses"
"""What `pin.sh` mends: the only finding on workflows as they are written."""


def lint(tool: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    place = shutil.which(tool, path=str(Path(sys.executable).parent)) or shutil.which(tool)
    if place is None:
        pytest.skip(f"needs {tool}")
    return subprocess.run([place, *map(str, arguments)], capture_output=True, text=True, check=False)


def test_the_dockerfile_has_no_finding(kit: Kit) -> None:
    ended = lint("hadolint", kit.folder / "Dockerfile")
    assert (ended.returncode, ended.stdout) == (0, "")


def test_the_containers_are_valid_by_the_schema_of_compose(kit: Kit) -> None:
    ended = lint("check-jsonschema", "--builtin-schema", "vendor.compose-spec", kit.folder / "compose.yaml")
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("of", ["kit", "docs"])
def test_the_workflows_are_valid_and_have_no_finding_but_what_is_pinned_later(kit: Kit, of: str) -> None:
    workflow = kit.folder / ".github" / "workflows" / "gate.yml" if of == "kit" else COPIED
    valid = lint("check-jsonschema", "--builtin-schema", "vendor.github-workflows", workflow)
    assert valid.returncode == 0, valid.stdout
    # as JSON: on a machine that sets `CI`, text has colours, which hide where a line starts
    found = lint("zizmor", "--offline", "--no-progress", "--format", "json", workflow)
    assert found.stdout, f"zizmor found nothing to say and exited {found.returncode}: {found.stderr}"
    assert {finding["ident"] for finding in json.loads(found.stdout)} == {UNPINNED}
