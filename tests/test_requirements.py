"""The package asks for releases of TorchRL that its tests have seen."""

import ast
import re
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PYPROJECT = (Path(__file__).parent.parent / "pyproject.toml").read_text()
# With MuJoCo 3.17, without Atari, with MuJoCo 4, with MuJoCo 4 and without Atari.
LISTS = [
    ast.literal_eval(found) for found in re.findall(r"^(?:.*\.)?result = (\[.*\])", PYPROJECT, re.MULTILINE)
]


def test_lists_differ_in_simulators_alone():
    usual, without_atari, other_mujoco, neither = LISTS
    assert without_atari == [r for r in usual if not r.startswith("ale-py")]
    assert neither == [r for r in other_mujoco if not r.startswith("ale-py")]
    assert other_mujoco == [r.replace("mujoco==3.17.0", "mujoco==4.0.0") for r in usual]


@pytest.mark.parametrize("name", ["torchrl", "tensordict"])
@pytest.mark.parametrize("which", range(4))
def test_a_later_minor_release_is_not_admitted_unseen(which, name):
    (admitted,) = (r.specifier for r in map(Requirement, LISTS[which]) if r.name == name)
    tested = version(name)
    assert tested in admitted
    major, minor, *_ = tested.split(".")
    assert f"{major}.{int(minor) + 1}.0" not in admitted
