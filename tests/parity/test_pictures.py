"""Pictures of classic control and toy texts against those that pygame draws for Gymnasium, pixel by pixel."""

import os

import numpy as np
import pytest
import torch
from cases import cases
from references.reference import gymnasium_env
from torchrl.envs import GymEnv, SerialEnv

from torchrl_pool import list_tasks

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame, which Gymnasium draws with, needs no screen then

CLASSIC, TOY_TEXT = list_tasks("classic"), list_tasks("toy_text")

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*:DeprecationWarning", "ignore:.*pkg_resources.*:UserWarning"
)


def play(task, make_pool, episodes, steps, act=None, reset_options=None, **options):
    """Yields pictures of the pool's env and of Gymnasium's, beside each other, after every reset and step."""
    twin = gymnasium_env(task, render_mode="rgb_array", **options)
    pool = make_pool(task, 1, **options)
    given = {} if reset_options is None else {"options": reset_options}
    for episode in range(episodes):
        root = pool.reset(seed=episode, **given)
        twin.reset(seed=episode, **given)
        yield pool.render()[0].numpy(), twin.render()
        for t in range(steps):
            root = pool.rand_action(root)
            if act is not None:
                root["action"][:] = act(t, root)
            action = root["action"][0].numpy()
            done = any(twin.step(action if action.ndim else action.item())[2:4])
            root = pool.step(root)["next"]
            yield pool.render()[0].numpy(), twin.render()
            if done:
                break
    twin.close()


def assert_same_pictures(pairs):
    shown = []
    for i, (ours, theirs) in enumerate(pairs):
        assert ours.shape == theirs.shape
        differing = (ours != theirs).any(-1)
        where = np.argwhere(differing)[:3].tolist()
        assert not len(where), f"picture {i}: {differing.mean():.2%} of the pixels differ, first at {where}"
        shown.append(theirs)
    assert any((picture != shown[0]).any() for picture in shown)


@pytest.mark.parametrize("task", cases(default=["CartPole-v0", "CartPole-v1"], also=CLASSIC))
def test_classic_control(task, make_pool):
    torch.manual_seed(0)
    assert_same_pictures(play(task, make_pool, episodes=3, steps=30))


@pytest.mark.parametrize(
    ("task", "reset_options"),
    cases(
        default=[("CartPole-v1", {"low": -2.5, "high": 2.5}), ("CartPole-v1", {"low": -9.0, "high": 9.0})],
        also=[
            ("Acrobot-v1", {"low": -3.2, "high": 3.2}),
            ("MountainCar-v0", {"low": -1.2, "high": 0.6}),
            ("MountainCarContinuous-v0", {"low": -1.2, "high": 0.6}),
            ("Pendulum-v1", {"x_init": 100.0, "y_init": 8.0}),
        ],
    ),
)
def test_classic_control_everywhere(task, reset_options, make_pool):
    torch.manual_seed(1)
    assert_same_pictures(play(task, make_pool, episodes=20, steps=3, reset_options=reset_options))


def test_arrows_of_all_sizes(make_pool):
    torques = torch.linspace(-2, 2, 200)
    assert_same_pictures(play("Pendulum-v1", make_pool, 1, 200, act=lambda t, root: torques[t]))


@pytest.mark.parametrize(
    "task",
    cases(
        default=["Blackjack-v1", "CliffWalkingSlippery-v1", "FrozenLake-v1", "FrozenLake8x8-v1"],
        also=TOY_TEXT,
    ),
)
def test_toy_text(task, make_pool):
    torch.manual_seed(0)
    assert_same_pictures(play(task, make_pool, episodes=5, steps=30))


@pytest.mark.parametrize(
    "desc",
    cases(
        default=[
            ["SFFFFFFFFF", "FFHFFFFFFH", "FFFFFFFFFG"],
            ["SF", "FH", "FF", "HF", "FF", "FF", "FF", "FF", "FG"],
        ],
        also=[["SFFFFFFFFFF"] * 10 + ["FFFFFFFFFFG"]],
    ),
)
def test_maps_of_all_sizes(desc, make_pool):
    torch.manual_seed(0)
    assert_same_pictures(play("FrozenLake-v1", make_pool, episodes=4, steps=25, desc=desc, is_slippery=False))


def test_pixels_in_rollouts_are_those_of_gym_env(make_pool):
    for task in ("MountainCar-v0", "Taxi-v4"):
        rollouts = []
        for env in (
            make_pool(task, 2, from_pixels=True, categorical_action_encoding=False),
            SerialEnv(2, lambda task=task: GymEnv(task, from_pixels=True)),
        ):
            env.set_seed(0)
            torch.manual_seed(0)
            rollouts.append(env.rollout(10)["next", "pixels"])
        assert torch.equal(*rollouts)
