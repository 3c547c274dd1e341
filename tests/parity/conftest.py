from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from references.reference import N

from torchrl_pool import PoolEnv, list_tasks, task_info, versions

PACKAGES = {"MuJoCo": "mujoco", "ALE": "ale-py"}


def other_release(family):
    """Why there is nothing to compare the family with, if so."""
    for part in versions()[family].split(", "):
        name, _, release = part.rpartition(" ")
        if not name:  # a plugin of tests
            return None
        package = PACKAGES.get(name, name.lower())
        package = "mujoco-core" if (name, release) == ("MuJoCo", "4.0.1") else package
        try:
            installed = version(package)
        except PackageNotFoundError:
            return f"{package} {release} is not installed"
        if installed != release:
            return f"numbers are those of {package} {release}, and {installed} is installed"
    return None


def pytest_collection_modifyitems(items):
    """Skips the tasks whose reference is another release here than the one that they follow."""
    reasons = {family: other_release(family) for family in versions()}
    family_of = {task: task_info(task).family for task in list_tasks()}
    for item in items:
        if item.path.parent != Path(__file__).parent:
            continue
        item.add_marker("parity")
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        families = {family_of.get(value) for value in values if isinstance(value, str)}
        for reason in {reasons.get(family) for family in families} - {None}:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def make_pool():
    """Makes pools on the CPU, with categorical actions unless told otherwise, and closes them at the end."""
    pools = []

    def make(task, num_envs=N, **kwargs):
        kwargs.setdefault("categorical_action_encoding", True)
        pools.append(PoolEnv(task, num_envs, device="cpu", **kwargs))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()
