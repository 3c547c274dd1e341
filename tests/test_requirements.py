"""The package asks for what it imports to step native tasks, in releases that its tests have seen."""

import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
REQUIRED = {r.name: r.specifier for r in map(Requirement, PROJECT["dependencies"])}


def test_simulators_are_not_asked_for():
    assert set(REQUIRED) == {"torch", "tensordict", "torchrl", "numpy"}


@pytest.mark.parametrize("name", ["torchrl", "tensordict"])
def test_a_later_minor_release_is_not_admitted_unseen(name):
    tested = version(name)
    assert tested in REQUIRED[name]
    major, minor, *_ = tested.split(".")
    assert f"{major}.{int(minor) + 1}.0" not in REQUIRED[name]


def test_all_holds_every_extra_for_users():
    extras = PROJECT["optional-dependencies"]
    (everything,) = map(Requirement, extras["all"])
    assert everything.extras == {*extras} - {"all", "bench", "dev", "docs", "test"}
