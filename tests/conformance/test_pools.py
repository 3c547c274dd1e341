"""All pools keep one contract, whatever their envs are and wherever these run."""

from dataclasses import replace
from functools import partial

import pytest
from cases import cases
from contract import OF_POOLS
from device import strict_device
from kinds import IN_WORKERS, INFOS, NATIVE, PYTHON, Kind, in_workers
from opengl import missing_opengl
from own_tasks import ONE_OF_EACH_KIND

from torchrl_pool import PoolEnv, task_info
from torchrl_pool.testing import check_plugin, check_pool

# Of each family, and of each way to save a state.
TASKS = [
    "ALE/Pong-v5",
    "Acrobot-v1",
    "BabyAI-GoToLocalS8N7-v0",
    "Blackjack-v1",
    "CarRacing-v3",
    "CartPole-v1",
    "FrozenLake-v1",
    "HalfCheetah-v5",
    "LunarLander-v3",
    "MiniGrid-DoorKey-8x8-v0",
    "MiniGrid-Dynamic-Obstacles-Random-6x6-v0",
    "MiniGrid-ObstructedMaze-1Dlhb-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "PointMaze_UMazeDense-v3",
    "Reacher-v5",
    "Taxi-v4",
    "dm_control/ball_in_cup-catch-v0",
    "dm_control/finger-turn_hard-v0",
    "dm_control/quadruped-walk-v0",
    "dm_control/swimmer-swimmer6-v0",
    "mpe2/simple_tag_v3",
    "mpe2/simple_world_comm_v3",
    "sisl/multiwalker_v9",
    "sisl/pursuit_v5",
]


def assert_keeps_the_contract(kind):
    checks = [name for name in OF_POOLS if name not in kind.without]
    applied = check_pool(
        kind.make, steps=30, encodings=kind.encodings, placements=kind.placements, checks=checks
    )
    assert applied == checks


@pytest.mark.parametrize("kind", cases(NATIVE), ids=NATIVE)
def test_kinds_of_pools(kind):
    assert_keeps_the_contract(NATIVE[kind])


@pytest.mark.parametrize("kind", cases(PYTHON), ids=PYTHON)
def test_envs_of_python(kind):
    assert_keeps_the_contract(PYTHON[kind])


@pytest.mark.parametrize("kind", cases(IN_WORKERS, also=PYTHON))
def test_envs_of_python_in_workers(kind):
    assert_keeps_the_contract(in_workers(PYTHON[kind]))


@pytest.mark.parametrize("task", cases(TASKS, also=ONE_OF_EACH_KIND))
def test_tasks(task):
    applied, info = check_plugin(task, steps=30), task_info(task)
    without = {"infos"}  # where it has none
    without |= {"collectors"} if task == "mpe2/collect_treasure_v1" else set()  # TorchRL's cannot name it
    without |= set() if info.can_save else {"states", "moved states"}
    if not info.can_render or ("pictures" not in applied and missing_opengl(task)):
        without.add("pictures")
    assert set(OF_POOLS) - set(applied) <= without


@pytest.mark.parametrize("late", cases([True], also=[False]))
def test_on_a_device(late):
    with strict_device(late=late) as device:
        kind = Kind(partial(PoolEnv, "CartPole-v1", device=device, pin_memory=late, info_keys=INFOS))
        assert_keeps_the_contract(replace(kind, without={"placements": "one"}))
