from typing import Any

import pytest
from gymnasium.wrappers import TimeLimit
from my_envs.docking import Docking

from torchrl_pool.testing import assert_same_trajectories, check_plugin


def test_keeps_the_contract() -> None:
    check_plugin("Docking-v0")


@pytest.mark.parametrize("options", [{}, {"mass": 0.7}, {"range": 0.1, "mass": 5.0}])
def test_equals_its_twin(options: dict[str, Any]) -> None:
    rollouts = assert_same_trajectories(
        "Docking-v0", lambda: TimeLimit(Docking(**options), 100), info_keys=["fuel"], **options
    )
    assert rollouts[0]["next", "done"].any()
