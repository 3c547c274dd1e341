"""The package asks for what it imports to step native tasks, in releases that its tests have seen."""

import os
import subprocess
import sys
import tomllib
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest
from cases import cases
from packaging.requirements import Requirement

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
PROJECT = tomllib.loads(PYPROJECT.read_text())["project"]
REQUIRED = {r.name: r.specifier for r in map(Requirement, PROJECT["dependencies"])}


def test_simulators_are_not_asked_for():
    assert set(REQUIRED) == {"torch", "tensordict", "torchrl", "numpy"}


@pytest.mark.parametrize("name", cases(sorted(REQUIRED)))
def test_what_is_installed_here_is_admitted(name):
    assert version(name).partition("+")[0] in REQUIRED[name]


def test_a_bound_from_above_says_why():
    text = PYPROJECT.read_text().partition("\ndependencies = [")[2].partition("\n]")[0]
    bounded = [line for line in text.splitlines() if "<" in line.partition("#")[0]]
    assert [line for line in bounded if "torchrl>=" not in line or "# " not in line] == []
    major, minor, *_ = version("torchrl").split(".")
    assert f"{major}.{int(minor) + 1}.0" not in REQUIRED["torchrl"]


def test_another_mujoco_than_the_build_wants_is_refused_in_words(tmp_path):
    collect = PYPROJECT.parent / "cpp" / "envs" / "mujoco" / "collect.py"
    program = (sys.executable, collect, "mujoco-core", "4.0.1", tmp_path)
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "building with mujoco-core 4.0.1, and nothing else" in done.stderr
    assert f"found mujoco {version('mujoco')}, mujoco-core (none): uninstall both" in done.stderr


def test_sources_that_cannot_be_fetched_or_are_others_are_refused_in_words(tmp_path):
    packages = PYPROJECT.parent / "cpp" / "envs" / "packages.py"
    program = (sys.executable, packages, "box2d-py", "2.3.8", "0" * 64, tmp_path, "TORCHRL_POOL_BOX2D")
    settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    run = partial(subprocess.run, program, capture_output=True, text=True, env=os.environ | settings)
    done = run()
    assert done.returncode == 1
    assert "could not fetch box2d-py 2.3.8" in done.stderr
    assert "Without these tasks: -DTORCHRL_POOL_BOX2D=OFF" in done.stderr
    (tmp_path / "box2d-py-2.3.8.tar.gz").write_bytes(b"")
    done = run()
    assert done.returncode == 1
    assert "is not the release 2.3.8 of box2d-py: its SHA-256 is e3b0c442" in done.stderr


def test_all_holds_every_extra_for_users():
    extras = PROJECT["optional-dependencies"]
    (everything,) = map(Requirement, extras["all"])
    assert everything.extras == {*extras} - {"all", "bench", "dev", "docs", "test"}
