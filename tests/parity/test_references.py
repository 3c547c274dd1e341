"""Every task equals its reference bit for bit, with the ids, limits and options that are registered there.

Families whose references need processes of their own are compared by test_dm_control.py, test_mpe.py,
test_robotics.py and test_sisl.py.
"""

from functools import partial

import gymnasium
import pytest
import torch
from cases import LONG, cases
from comparing import assert_steps_equal
from references import REFERENCES
from references.reference import N, gymnasium_tasks
from torchrl.envs import GymEnv, SerialEnv

from torchrl_pool import task_info

# Gymnasium says so of every id whose number is not the highest, and of MuJoCo's own older XML attributes.
pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:UserWarning")

TASKS = cases(
    [task for one in REFERENCES.values() for task in one.default],
    also=[task for one in REFERENCES.values() for task in one.tasks],
)
SERIAL = cases(
    ["ALE/Pong-v5", "Acrobot-v1", "BipedalWalker-v3", "CartPole-v1", "CliffWalking-v1", "Hopper-v4"],
    also=[task for one in REFERENCES.values() if one.family != "minigrid" for task in one.tasks],
)


def of(task):
    return REFERENCES[task_info(task).family]


@pytest.mark.parametrize("family", cases(REFERENCES))
def test_families_are_complete(family):
    reference = REFERENCES[family]
    assert reference.ids() == set(reference.tasks)
    for task in reference.tasks:
        info, registered = task_info(task), gymnasium.spec(task)
        assert info.max_episode_steps == registered.max_episode_steps, task
        assert info.reward_threshold == registered.reward_threshold, task
        if family == "minigrid":
            continue  # whose classes of missions and sizes are its tasks
        defaults = {option.name: option.default for option in info.options}
        for name, value in registered.kwargs.items():
            ours = reference.renamed.get(name, name)
            assert ours is None or defaults[ours] == value, f"{task}: {name}"


@pytest.mark.parametrize("task", TASKS)
def test_trajectories(task):
    reference = of(task)
    rollouts = reference.compare(task, (5 if LONG else 1) * reference.steps(task), seeds=reference.seeds)
    assert not reference.ends(task) or torch.cat(rollouts)["next", "done"].any()


@pytest.mark.parametrize("task", SERIAL)
def test_serial_env(task, make_pool):
    """Specs in both encodings, seeds of TorchRL's chain, and the resets of a SerialEnv."""
    reference, limit = of(task), {"max_episode_steps": 40}
    for is_number in (True, False):
        encoding = {"categorical_action_encoding": is_number}
        pool = make_pool(task, **limit, **encoding)
        serial = SerialEnv(N, partial(reference.torchrl, task, **limit, **encoding))
        for kind in ("observation", "action", "reward", "done", "state"):
            assert getattr(pool, f"full_{kind}_spec") == getattr(serial, f"full_{kind}_spec"), kind
        assert pool.set_seed(3) == serial.set_seed(3)
        if not is_number:
            assert assert_steps_equal(pool, serial, 10 if "Car" in task else 90) >= N or "Car" in task
        serial.close()


OPTIONS = cases(
    [case for one in REFERENCES.values() for case in one.default_options],
    also=[case for one in REFERENCES.values() for case in one.more_options],
)


@pytest.mark.parametrize(
    ("task", "options"), OPTIONS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_options(task, options):
    """They act as there, and make a difference."""
    reference = of(task)
    limit = {"max_episode_steps": 40} if reference.family == "mujoco" else {}
    steps = 150 if limit else reference.steps(task)
    (given,) = reference.compare(task, steps, **options, **limit)
    (default,) = reference.compare(task, steps, **limit)
    assert [
        key
        for key, value in default.items(True, True)
        if key not in given.keys(True, True) or not torch.equal(given[key], value)
    ]


LIMITED = cases(
    ["Acrobot-v1", "CartPole-v1", "FrozenLake-v1", "Reacher-v5"],
    also=[task for task in gymnasium_tasks() if "Car" not in task],
)


@pytest.mark.parametrize("limit", cases([1, 7]))
@pytest.mark.parametrize("task", LIMITED)
def test_time_limits(task, limit):
    (rollout,) = of(task).compare(task, 30, max_episode_steps=limit)
    assert rollout["next", "truncated"].any()


@pytest.mark.parametrize(
    "task", cases(["Pendulum-v1", "CliffWalking-v1"], also=["CartPole-v0", "Acrobot-v1"])
)
def test_no_time_limit(task):
    """Which Gymnasium reads from -1."""
    (rollout,) = of(task).compare(task, 600, max_episode_steps=None, twin={"max_episode_steps": -1})
    assert not rollout["next", "truncated"].any()


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("seed", cases(default=[7, 2**40 + 1], also=[0, 2**31, 2**32 - 1]))
def test_seed_chain(seed, static, make_pool):
    pool, serial = make_pool("Pendulum-v1"), SerialEnv(N, lambda: GymEnv("Pendulum-v1"))
    assert pool.set_seed(seed, static_seed=static) == serial.set_seed(seed, static_seed=static)
    for _ in range(2):
        actual = pool.reset()["observation"]
        assert torch.equal(actual, serial.reset()["observation"])
        assert (actual == actual[:1]).all().item() is static
    serial.close()
