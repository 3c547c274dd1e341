"""Options of classic control that Gymnasium has elsewhere, and ends of two kinds in one step."""

import pytest
import torch
from cases import LONG, cases
from comparing import differing_keys
from references.classic import Classic
from references.reference import N, gymnasium_env

CLASSIC = Classic()


def twin(task, attributes):
    env = gymnasium_env(task)
    for name, value in attributes.items():
        assert hasattr(env.unwrapped, name)
        setattr(env.unwrapped, name, value)
    return env


@pytest.mark.parametrize(
    ("task", "options"),
    cases(
        default=[("CartPole-v1", {"low": -0.2, "high": 0.1}), ("Acrobot-v1", {"dt": 0.05})],
        also=[
            ("CartPole-v1", {"high": 0.2}),
            ("MountainCar-v0", {"low": -1.2, "high": 0.4}),
            ("MountainCarContinuous-v0", {"low": -1.2, "high": 0}),
            ("Pendulum-v1", {"x_init": 0.5, "y_init": 4.0}),
            ("Pendulum-v1", {"x_init": 30.0}),
            ("Acrobot-v1", {"low": -0.5, "high": 0.3}),
            ("Acrobot-v1", {"low": -50.0, "high": 50.0}),
            ("Acrobot-v1", {"torque_noise_max": 0.5}),
            ("Acrobot-v1", {"book_or_nips": "nips"}),
        ],
    ),
    ids=str,
)
def test_options_of_resets_and_attributes(task, options):
    own = {"dt", "torque_noise_max", "book_or_nips"} & set(options)
    given = {
        "make": lambda: twin(task, options if own else {}),
        "reset_options": None if own else options,
    }
    steps = 600 if LONG else 250
    (changed,) = CLASSIC.compare(task, steps, **given, **options)
    (default,) = CLASSIC.compare(task, steps)
    assert differing_keys(changed, default), "the option makes no difference here: nothing was tested"


def test_terminated_and_truncated_in_one_step(make_pool):
    pool = make_pool("CartPole-v1")
    root, length = pool.reset(seed=0), 0
    while not root["done"].any():
        root = pool.step(root.set("action", torch.ones(N, dtype=torch.int64)))["next"]
        length += 1
    (rollout,) = CLASSIC.compare(
        "CartPole-v1",
        length,
        policy=lambda pool, root: torch.ones(N, dtype=torch.int64),
        max_episode_steps=length,
    )
    last = rollout["next"][:, -1]
    assert (last["terminated"] & last["truncated"]).any()
    assert last["truncated"].all()


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
        action = CLASSIC.policy(mixed, mixed_root)
        mixed_td, mixed_root = mixed.step_and_maybe_reset(mixed_root.set("action", action))
        for i, pool in enumerate(uniform):
            td, uniform_roots[i] = pool.step_and_maybe_reset(uniform_roots[i].set("action", action))
            assert not differing_keys(td[i], mixed_td[i])
            assert not differing_keys(uniform_roots[i][i], mixed_root[i])
        mixed_rows.append(mixed_td)
    assert torch.stack(mixed_rows)["next", "done"].any() or task == "Acrobot-v1"
