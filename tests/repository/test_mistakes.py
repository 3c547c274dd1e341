"""Planted mistakes must apply to the code as it is: a change of the code changes the mistake."""

import re

import pytest
from environments import CHECKOUT

pytestmark = pytest.mark.repo

PATCHES = sorted((CHECKOUT / "tests" / "mistakes").glob("*.patch"))


def applies(patch):
    """Whether what it replaces stands in its file."""
    _, path, *hunks = re.split(r"^\+\+\+ b/(.*)$|^@@ .*$", patch.read_text(), flags=re.MULTILINE)
    code = (CHECKOUT / path).read_text()
    old = ["".join(line[1:] for line in hunk[1:].splitlines(True) if line[0] in " -") for hunk in hunks[::2]]
    return all(lines in code for lines in old)


def test_every_patch_applies():
    assert [patch.stem for patch in PATCHES if not applies(patch)] == []


def test_every_patch_says_what_it_stands_for_and_what_finds_it():
    heads = [patch.read_text().splitlines()[:3] for patch in PATCHES]
    assert all(
        re.match("Stands for: .", head[0]) and re.match(r"Finder: tests/\S+", head[1]) for head in heads
    )
    assert len(PATCHES) >= 100
