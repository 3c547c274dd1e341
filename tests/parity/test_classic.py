"""Classic control against Gymnasium, bit for bit."""

import math
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from cases import LONG, cases
from comparing import assert_steps_equal, differing_keys
from reference import N, Reference, assert_registered_as_in_gymnasium, gymnasium_env
from torchrl.envs import GymEnv, SerialEnv

from torchrl_pool import list_tasks

TASKS = list_tasks("classic")
FLAGS = ("done", "terminated", "truncated")


def _numpy_calls_libm():
    """Whether NumPy's sin and cos of a float64 equal the C library's.

    On some processors NumPy takes vector code of its own for them, which may differ in the last bit. The
    pool, in C++, always calls the C library.
    """
    angles = np.random.default_rng(0).uniform(-20, 20, 20_000)
    return all(np.sin(x) == math.sin(x) and np.cos(x) == math.cos(x) for x in angles)


def _numpy_float32_is_vectorized():
    """Whether NumPy takes its polynomial for sin and cos of a float32, which the pool rebuilds for Acrobot.

    On processors without fused multiply-add NumPy calls the C library instead, which rounds better.
    """
    angles = np.linspace(-0.1, 0.1, 10_001, dtype=np.float32)
    return any(np.cos(x) != np.float32(math.cos(x)) for x in angles)


LIBM_EQUAL = _numpy_calls_libm()
FLOAT32_EQUAL = _numpy_float32_is_vectorized()
ULPS = 2


def is_chaotic(task):
    """Whether trajectories drift apart on this processor.

    The mountain cars call the C library from Python too. For the others a difference in the last bit of the
    float64 state grows from step to step, but for 20 steps stays far below the resolution of a float32.
    """
    return not (LIBM_EQUAL or task.startswith("MountainCar"))


def is_exact(task):
    """Whether the task can equal its reference in every bit on this processor.

    Where it cannot, float32 observations differ by rounding: by ULPS at most, which is also the distance
    between the two kinds of float32 trigonometry. Only Acrobot's first observations use the latter.
    """
    return not is_chaotic(task) and (FLOAT32_EQUAL or task != "Acrobot-v1")


def steps_to_compare(task, steps):
    return min(steps, 20) if is_chaotic(task) else steps


def steps_to_a_limit(task):
    """So many that episodes end of which random actions do not find the end."""
    return steps_to_compare(task, 1_000 if LONG or task == "MountainCarContinuous-v0" else 510)


def assert_same(task, actual, expected, what):
    actual, expected = torch.as_tensor(actual), torch.as_tensor(expected)
    assert actual.dtype == expected.dtype, what
    assert actual.shape == expected.shape, what
    if is_exact(task) or not actual.is_floating_point():
        assert torch.equal(actual, expected), f"{what}: {actual} != {expected}"
    else:
        scale = torch.maximum(actual.abs(), expected.abs()).clamp(min=1e-3)
        ulps = (actual - expected).abs() / torch.from_numpy(np.spacing(scale.numpy()))
        assert (ulps <= ULPS).all(), f"{what}: {actual} is up to {ulps.max()} ulps from {expected}"


def choose_action(pool, root):
    """Random actions; but a mountain car is pushed the way it moves, or it would never reach its goal."""
    action = pool.rand_action()["action"]
    if not pool.task.startswith("MountainCar"):
        return action
    forward = root["observation"][:, 1] >= 0
    if action.is_floating_point():
        strength = 0.3 + 0.7 * torch.rand(action.shape)
        return torch.where(forward.unsqueeze(-1), strength, -strength)
    return 2 * forward.long()


def play(task, pool, reference, steps, seed):
    """Compares the two step by step and returns the pool's "next" entries, stacked over time."""
    pool_td = pool.reset(seed=seed)
    assert_same(task, pool_td["observation"], reference.reset(seed), "first observation")
    history = []
    for t in range(steps_to_compare(task, steps)):
        pool_td["action"] = choose_action(pool, pool_td)
        after, roots = reference.step(pool_td["action"])
        pool_td, pool_root = pool.step_and_maybe_reset(pool_td)
        for key, expected in after.items():
            assert_same(task, pool_td["next", key], expected, f"next {key} of step {t}")
        assert_same(task, pool_root["observation"], roots, f"root observation after step {t}")
        for key in FLAGS:
            assert not pool_root[key].any()
        history.append(pool_td["next"])
        pool_td = pool_root
    return torch.stack(history, -1)


def test_family_is_complete():
    reference = {id for id, spec in gymnasium.registry.items() if "classic_control" in str(spec.entry_point)}
    assert set(TASKS) == reference


def test_registrations_equal_gymnasiums():
    for task in TASKS:
        assert_registered_as_in_gymnasium(task)


@pytest.mark.parametrize("categorical", [False, True])
@pytest.mark.parametrize("task", cases(default=["Acrobot-v1", "CartPole-v0", "CartPole-v1"], also=TASKS))
def test_specs_equal_those_of_gym_env(task, categorical, make_pool):
    pool = make_pool(task, categorical_action_encoding=categorical)
    reference = SerialEnv(N, lambda: GymEnv(task, categorical_action_encoding=categorical))
    for kind in ("observation", "action", "reward", "done", "state"):
        assert getattr(pool, f"{kind}_spec") == getattr(reference, f"{kind}_spec")
        assert getattr(pool, f"full_{kind}_spec") == getattr(reference, f"full_{kind}_spec")
    assert pool.batch_size == reference.batch_size


@pytest.mark.parametrize("seed", [0, 1, 2] if LONG else [0])
@pytest.mark.parametrize("task", cases(default=["CartPole-v1", "MountainCar-v0"], also=TASKS))
def test_equals_serial_env_of_gym_envs(task, seed, make_pool):
    pool = make_pool(task, categorical_action_encoding=False)
    reference = SerialEnv(N, lambda: GymEnv(task))
    assert pool.set_seed(seed) == reference.set_seed(seed)
    torch.manual_seed(seed)
    steps = steps_to_a_limit(task)
    episodes = assert_steps_equal(pool, reference, steps, partial(assert_same, task))
    assert episodes >= N or is_chaotic(task)
    reference.close()


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("seed", cases(default=[7, 2**40 + 1], also=[0, 2**31, 2**32 - 1]))
def test_seed_chain_equals_that_of_serial_env(seed, static, make_pool):
    pool = make_pool("Pendulum-v1")
    reference = SerialEnv(N, lambda: GymEnv("Pendulum-v1"))
    assert pool.set_seed(seed, static_seed=static) == reference.set_seed(seed, static_seed=static)
    for _ in range(2):
        actual = pool.reset()["observation"]
        assert_same("Pendulum-v1", actual, reference.reset()["observation"], "observation")
        assert (actual == actual[:1]).all().item() is static
    reference.close()


@pytest.mark.parametrize(
    ("task", "options", "reference"),
    cases(
        default=[
            ("CartPole-v0", {"sutton_barto_reward": True}, {"kwargs": {"sutton_barto_reward": True}}),
            ("MountainCar-v0", {"goal_velocity": 0.04}, {"kwargs": {"goal_velocity": 0.04}}),
        ],
        also=[
            ("CartPole-v1", {"sutton_barto_reward": True}, {"kwargs": {"sutton_barto_reward": True}}),
            ("CartPole-v1", {"low": -0.2, "high": 0.1}, {"reset_options": {"low": -0.2, "high": 0.1}}),
            ("CartPole-v1", {"high": 0.2}, {"reset_options": {"high": 0.2}}),
            ("MountainCar-v0", {"low": -1.2, "high": 0.4}, {"reset_options": {"low": -1.2, "high": 0.4}}),
            ("MountainCarContinuous-v0", {"goal_velocity": 0.04}, {"kwargs": {"goal_velocity": 0.04}}),
            (
                "MountainCarContinuous-v0",
                {"low": -1.2, "high": 0},
                {"reset_options": {"low": -1.2, "high": 0}},
            ),
            ("Pendulum-v1", {"g": 9.81}, {"kwargs": {"g": 9.81}}),
            ("Pendulum-v1", {"g": 3}, {"kwargs": {"g": 3}}),
            (
                "Pendulum-v1",
                {"x_init": 0.5, "y_init": 4.0},
                {"reset_options": {"x_init": 0.5, "y_init": 4.0}},
            ),
            ("Pendulum-v1", {"x_init": 30.0}, {"reset_options": {"x_init": 30.0}}),
            ("Acrobot-v1", {"low": -0.5, "high": 0.3}, {"reset_options": {"low": -0.5, "high": 0.3}}),
            ("Acrobot-v1", {"low": -50.0, "high": 50.0}, {"reset_options": {"low": -50.0, "high": 50.0}}),
            ("Acrobot-v1", {"dt": 0.05}, {"attributes": {"dt": 0.05}}),
            ("Acrobot-v1", {"torque_noise_max": 0.5}, {"attributes": {"torque_noise_max": 0.5}}),
            ("Acrobot-v1", {"book_or_nips": "nips"}, {"attributes": {"book_or_nips": "nips"}}),
        ],
    ),
    ids=lambda value: "-".join(value) if isinstance(value, dict) else value,
)
def test_options_equal_gymnasiums(task, options, reference, make_pool):
    kwargs = {"kwargs": {}, **reference}
    make = partial(gymnasium_env, task, **kwargs.pop("kwargs"))
    steps = 600 if LONG else 250
    with_options = play(task, make_pool(task, **options), Reference([make] * N, **kwargs), steps, seed=4)
    torch.manual_seed(0)
    default = play(task, make_pool(task), Reference([partial(gymnasium_env, task)] * N), steps, seed=4)
    assert differing_keys(with_options, default), "the option makes no difference here: nothing was tested"


@pytest.mark.parametrize("task", cases(default=["Acrobot-v1", "CartPole-v1"], also=TASKS))
@pytest.mark.parametrize("limit", [1, 7])
def test_time_limit_equals_gymnasiums(task, limit, make_pool):
    make = partial(gymnasium_env, task, max_episode_steps=limit)
    after = play(task, make_pool(task, max_episode_steps=limit), Reference([make] * N), 30, seed=0)
    assert after["truncated"].any()


@pytest.mark.parametrize("task", cases(default=["CartPole-v0", "CartPole-v1"], also=TASKS))
def test_no_time_limit(task, make_pool):
    """The registered limits are below 1,000 steps; Gymnasium reads -1 as none."""
    pool = make_pool(task, max_episode_steps=None)
    after = play(
        task, pool, Reference([partial(gymnasium_env, task, max_episode_steps=-1)] * N), 1_100, seed=0
    )
    assert not after["truncated"].any()


def test_terminated_and_truncated_in_one_step(make_pool):
    pool = make_pool("CartPole-v1")
    root = pool.reset(seed=0)
    action = torch.ones(N, dtype=torch.int64)
    length = 0
    while not root["done"].any():
        root = pool.step(root.set("action", action))["next"]
        length += 1
    limited = make_pool("CartPole-v1", max_episode_steps=length)
    reference = Reference([partial(gymnasium_env, "CartPole-v1", max_episode_steps=length)] * N)
    root, _ = limited.reset(seed=0), reference.reset(0)
    for _ in range(length):
        td, root = limited.step_and_maybe_reset(root.set("action", action))
        expected, _ = reference.step(action)
        for key in FLAGS:
            assert torch.equal(td["next", key], expected[key])
    assert (td["next", "terminated"] & td["next", "truncated"]).any()
    assert td["next", "truncated"].all()


@pytest.mark.parametrize(
    ("task", "shared", "per_env"),
    cases(
        default=[
            ("MountainCar-v0", {}, [{"low": -1.0}, {"high": 0.3}, {"goal_velocity": 0.05}]),
            ("MountainCarContinuous-v0", {}, [{"low": -1.0}, {"high": 0.3}, {"goal_velocity": 0.05}]),
            ("Acrobot-v1", {"dt": 0.1}, [{"torque_noise_max": 1.0}, {"book_or_nips": "nips"}, {"dt": 0.3}]),
        ],
        also=[
            ("CartPole-v1", {"high": 0.07}, [{"sutton_barto_reward": True}, {}, {"low": -0.2}]),
            ("Pendulum-v1", {"g": 2.0}, [{"g": 9.81}, {}, {"x_init": 0.1, "y_init": 3.0}]),
        ],
    ),
)
def test_env_options_apply_to_their_env_alone(task, shared, per_env, make_pool):
    mixed = make_pool(task, env_options=per_env, **shared)
    uniform = [make_pool(task, **{**shared, **options}) for options in per_env]
    mixed_root, uniform_roots = mixed.reset(seed=9), [pool.reset(seed=9) for pool in uniform]
    mixed_rows = []
    for _ in range(250):
        action = choose_action(mixed, mixed_root)
        mixed_td, mixed_root = mixed.step_and_maybe_reset(mixed_root.set("action", action))
        for i, pool in enumerate(uniform):
            td, uniform_roots[i] = pool.step_and_maybe_reset(uniform_roots[i].set("action", action))
            assert not differing_keys(td[i], mixed_td[i])
            assert not differing_keys(uniform_roots[i][i], mixed_root[i])
        mixed_rows.append(mixed_td)
    assert torch.stack(mixed_rows)["next", "done"].any() or task == "Acrobot-v1"
