"""The package asks for releases of TorchRL that its tests have seen."""

import ast
import re
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PYPROJECT = (Path(__file__).parent.parent / "pyproject.toml").read_text()
# One for each release of MuJoCo.
LISTS = [
    ast.literal_eval(found) for found in re.findall(r"^(?:.*\.)?result = (\[.*\])", PYPROJECT, re.MULTILINE)
]


def test_lists_differ_in_mujoco_alone():
    one, other = ([r for r in requirements if not r.startswith("mujoco")] for requirements in LISTS)
    assert one == other


@pytest.mark.parametrize("name", ["torchrl", "tensordict"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_later_minor_release_is_not_admitted_unseen(which, name):
    (admitted,) = (r.specifier for r in map(Requirement, LISTS[which]) if r.name == name)
    tested = version(name)
    assert tested in admitted
    major, minor, *_ = tested.split(".")
    assert f"{major}.{int(minor) + 1}.0" not in admitted
