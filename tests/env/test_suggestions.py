"""What the answer to an unknown task, or to an unknown argument, suggests."""

import importlib.metadata
import inspect
import pickle
import re
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from torchrl.collectors import Collector

from torchrl_pool import MujocoPool, MultiThreadedEnv, PoolCollector, PoolEnv
from torchrl_pool._collecting.collector_options import CollectorOptions
from torchrl_pool._plugins import registry
from torchrl_pool.gymnasium import PoolVectorEnv


def answer(task):
    with pytest.raises(ValueError, match=re.escape(f"unknown task {task!r}; ")) as info:
        PoolEnv(task, 1)
    return str(info.value).splitlines()[0].partition("; ")[2]


@pytest.mark.parametrize(
    ("family", "task", "name"),
    cases(
        default=[
            ("atari", "ALE/Pong-v5", "Atari"),
            ("dm_control", "dm_control/dog-run-v0", "dm_control's suite"),
            ("robotics", "AntMaze_UMaze-v5", "Gymnasium-Robotics"),
        ],
        also=[("robotics", "FetchPush-v4", "Gymnasium-Robotics")],
    ),
)
def test_what_a_build_left_out_is_named(monkeypatch, family, task, name):
    rest = [plugin for plugin in registry.plugins() if plugin.family != family]
    monkeypatch.setattr(registry, "plugins", lambda **_: rest)
    with pytest.raises(ValueError, match=rf"'{task}': this torchrl_pool was built without {name} \("):
        PoolEnv(task, 1)


@pytest.mark.parametrize(
    ("task", "suggested"),
    cases(
        default=[
            ("LunarLander-v2", "'LunarLander-v3'"),
            ("CartPol-v1", "'CartPole-v1' or 'CartPole-v0'"),
            ("Pong-v5", "'ALE/Pong-v5'"),
        ],
        also=[("Taxi-v3", "'Taxi-v4'")],
    ),
)
def test_similar_ids_are_suggested(task, suggested):
    assert answer(task).startswith(f"did you mean {suggested}")


@pytest.mark.parametrize("task", cases(default=["/", "a\nb", "zzzz"], also=["", "AcmeTask-v1"]))
def test_where_nothing_is_similar_nothing_is_suggested(task):
    assert answer(task) == (
        "list_tasks() and `torchrl-pool list` name all; 'gymnasium:ID' makes an env of Gymnasium's"
    )


def cartpole():
    return gymnasium.make("CartPole-v1")


@pytest.mark.parametrize(
    ("make", "slip", "suggested"),
    cases(
        default=[
            (partial(PoolEnv, "Acrobot-v1", 2), "book_or_nip", "book_or_nips"),
            (partial(MultiThreadedEnv, 2, "Acrobot-v1"), "book_or_nip", "book_or_nips"),
            (partial(PoolCollector, cartpole, frames_per_batch=8), "total_frame", "total_frames"),
        ],
        also=[
            (partial(PoolVectorEnv, "Acrobot-v1", 2), "book_or_nip", "book_or_nips"),
            (partial(PoolCollector, cartpole, frames_per_batch=8), "storing_devices", "storing_device"),
        ],
    ),
)
def test_mistyped_options(make, slip, suggested):
    with pytest.raises(TypeError, match=rf"{slip}\b.* \(did you mean '{suggested}'\?\);"):
        make(**{slip: 1})


def test_where_no_argument_is_similar_none_is_suggested():
    with pytest.raises(TypeError, match=r"task 'CartPole-v1' has no option 'qqq'; it has: ") as info:
        PoolEnv("CartPole-v1", 2, qqq=1)
    assert "did you mean" not in str(info.value)
    assert str(pickle.loads(pickle.dumps(info.value))) == str(info.value)


@pytest.mark.parametrize("dtype", cases(default=["float32", torch.float32], also=[np.float32]))
def test_dtypes_by_any_name(dtype):
    assert PoolEnv("Hopper-v5", 1, obs_dtype=dtype).rollout(1)["observation"].dtype is torch.float32
    env = MujocoPool("hopper.xml", 1, dtype=dtype)
    assert env.rollout(1)["next", "reward"].dtype is torch.float32


def test_a_collector_has_the_arguments_of_torchrls_with_their_types():
    own = inspect.signature(PoolCollector.__init__).parameters
    torchrls = inspect.signature(Collector.__init__).parameters.keys() - {"kwargs"}
    if importlib.metadata.version("torchrl") == "0.14.1":  # others may have more
        assert torchrls | {"traj_pool"} == CollectorOptions.__annotations__.keys() | (torchrls & own.keys())
    assert not CollectorOptions.__annotations__.keys() & own.keys()
