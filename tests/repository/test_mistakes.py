"""Planted mistakes must apply to the code as it is: a change of the code changes the mistake."""

import re
import subprocess

import pytest
from environments import CHECKOUT

pytestmark = pytest.mark.repo

PATCHES = sorted((CHECKOUT / "tests" / "mistakes").glob("*.patch"))


def test_every_patch_applies():
    def applies(patch):
        check = ["git", "apply", "--check", str(patch)]
        return subprocess.run(check, cwd=CHECKOUT, capture_output=True, check=False).returncode == 0

    assert [patch.stem for patch in PATCHES if not applies(patch)] == []


def test_every_patch_says_what_it_stands_for_and_what_finds_it():
    heads = [patch.read_text().splitlines()[:3] for patch in PATCHES]
    assert all(
        re.match("Stands for: .", head[0]) and re.match(r"Finder: tests/\S+", head[1]) for head in heads
    )
    assert len(PATCHES) >= 100
