"""Gymnasium's reset(options=…), bit for bit, and its use through SerialEnv."""

import inspect
import re

import numpy as np
import pytest
import torch
from cases import cases
from references.reference import N, gymnasium_env, gymnasium_tasks
from torchrl.envs import GymEnv, SerialEnv

from torchrl_pool import task_info

# CarRacing's colours, which most resets of Gymnasium's draw without a seed, are for test_box2d.py.
TASKS = [
    task for task in gymnasium_tasks() if task_info(task).reset_options and not task.startswith("CarRacing")
]
CHOICES = {
    "CartPole-v0": [{"low": -0.2, "high": 0.1}, {"high": 0.02}, {"low": 0.03}],
    "CartPole-v1": [{"low": -0.2, "high": 0.1}, {"high": 0.02}, {"low": 0.03, "high": 0.03}],
    "Acrobot-v1": [{"low": -1.0, "high": 1.0}, {"high": 0.5}, {"low": -3}],
    "MountainCar-v0": [{"low": -1.2, "high": 0.4}, {"high": 0.0}, {"low": -0.7}],
    "MountainCarContinuous-v0": [{"low": -1.2, "high": 0.4}, {"high": 0}, {"low": np.float32(-0.7)}],
    "Pendulum-v1": [{"x_init": 0.5, "y_init": 4.0}, {"x_init": np.pi / 2}, {"y_init": 0}],
}

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:gymnasium", "ignore:.*:UserWarning")


@pytest.mark.parametrize(
    "task",
    cases(
        default=["BipedalWalkerHardcore-v3", "MountainCarContinuous-v0", "Pendulum-v1"],
        also=gymnasium_tasks(),
    ),
)
def test_every_task_has_those_that_gymnasium_reads(task):
    """As far as its sources show: the names that a reset looks for."""
    env_class = type(gymnasium_env(task).unwrapped)
    text = inspect.getsource(env_class.reset)
    if "maybe_parse_reset_bounds" in text:
        text += inspect.getsource(inspect.getmodule(env_class).utils.maybe_parse_reset_bounds)
    expected = set(re.findall(r'options(?:\.get\(|\[)"(\w+)"', text))
    assert {option.name for option in task_info(task).reset_options} == expected
    assert not expected or task in CHOICES or task not in TASKS


@pytest.mark.parametrize("task", cases(default=["Acrobot-v1", "CartPole-v0", "Pendulum-v1"], also=TASKS))
def test_equals_gymnasium(task, make_pool):
    """In every reset of a sequence with and without options, seeds and masks."""
    pool = make_pool(task)
    envs = [gymnasium_env(task) for _ in range(N)]
    draws = np.random.default_rng(0)
    td = pool.reset(seed=0)
    observed = [env.reset(seed=i)[0] for i, env in enumerate(envs)]
    for _ in range(30):
        one = CHOICES[task][draws.integers(3)]
        each = [CHOICES[task][i] if draws.random() < 0.7 else None for i in range(N)]
        options = [one, each, None][draws.integers(3)]
        seed = int(draws.integers(100)) if draws.random() < 0.3 else None
        mask = draws.random(N) < 0.6 if draws.random() < 0.5 else np.ones(N, bool)
        given = td.select(*pool.done_keys, "observation").set("_reset", torch.from_numpy(mask))
        td = pool.reset(given, options=options, **({} if seed is None else {"seed": seed}))
        for i, env in enumerate(envs):
            if mask[i]:
                own = options[i] if isinstance(options, list) else options
                observed[i] = env.reset(seed=None if seed is None else seed + i, options=own)[0]
            assert torch.equal(td["observation"][i], torch.from_numpy(np.array(observed[i])))


@pytest.mark.parametrize("task", cases(default=["CartPole-v0", "CartPole-v1"], also=TASKS))
def test_equals_serial_env_of_gym_envs(task, make_pool):
    """After set_seed, with list_of_kwargs and with a mask."""
    pool = make_pool(task, categorical_action_encoding=False)
    reference = SerialEnv(N, lambda: GymEnv(task))
    pool.set_seed(5)
    reference.set_seed(5)
    kwargs = [{"options": CHOICES[task][i]} for i in range(N)]
    for _ in range(2):
        actual, expected = (
            env.reset(list_of_kwargs=[dict(one) for one in kwargs]) for env in (pool, reference)
        )
        assert torch.equal(actual["observation"], expected["observation"])
    mask = torch.tensor([[True], [False], [True]])
    actual, expected = (
        env.reset(td.set("_reset", mask), options=CHOICES[task][1])
        for env, td in ((pool, actual), (reference, expected))
    )
    assert torch.equal(actual["observation"][::2], expected["observation"][::2])
    assert torch.equal(pool.reset()["observation"], reference.reset()["observation"])
    reference.close()


def test_the_envs_own_options_are_the_defaults(make_pool):
    """Which Gymnasium has not: there the defaults are fixed."""
    pool = make_pool("CartPole-v1", low=-0.3, high=0.3)
    expected = [
        gymnasium_env("CartPole-v1").reset(seed=i, options={"low": -0.3, "high": 2})[0] for i in range(N)
    ]
    actual = pool.reset(seed=0, options={"high": 2})["observation"]
    assert torch.equal(actual, torch.from_numpy(np.stack(expected)))
