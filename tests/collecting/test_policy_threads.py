"""Torch's threads while a batch is collected."""

import threading

import pytest
import torch
from cases import cases
from collecting import FRAMES, categorical_actor
from tensordict.nn import TensorDictModule
from torch import nn

from torchrl_pool import PoolCollector, PoolEnv
from torchrl_pool._collecting.schedule import Schedule, work_for


@pytest.fixture(autouse=True)
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def seen_by_policy(network, **options):
    """The threads that a network finds in each of its calls."""
    env, seen = PoolEnv("CartPole-v1", 4), []

    def choose(observation):
        seen.append(torch.get_num_threads())
        return torch.eye(2, dtype=torch.int64)[(observation[..., 2] > 0).long()]

    policy = TensorDictModule(choose, ["observation"], ["action"])
    policy.network = network
    collector = PoolCollector(env, policy, frames_per_batch=FRAMES, total_frames=FRAMES, **options)
    seen.clear()
    list(collector)
    assert torch.get_num_threads() == 3
    return set(seen)


@pytest.mark.parametrize(
    ("network", "options", "expected"),
    cases(
        default=[(nn.Conv2d(1, 1, 1), {}, 3), (nn.Linear(64, 64), {"policy_threads": 2}, 2)],
        also=[
            (nn.Linear(64, 64), {}, 1),
            (nn.Linear(4096, 8193), {}, 3),
            (nn.Conv2d(1, 1, 1), {"policy_threads": 1}, 1),
        ],
    ),
    ids=str,
)
def test_small_networks_get_one_thread(network, options, expected):
    assert seen_by_policy(network, **options) == {expected}


def test_an_error_restores_them():
    with pytest.raises(KeyError), Schedule(False, 1).computing(None, 1):
        raise KeyError
    assert torch.get_num_threads() == 3


def test_other_threads_set_nothing():
    seen = []

    def collect():
        before = torch.get_num_threads()
        with Schedule(False, 1 if before != 1 else 2).computing(None, 1):
            seen.append(torch.get_num_threads() == before)

    thread = threading.Thread(target=collect)
    thread.start()
    thread.join()
    assert seen == [True]


def test_what_is_no_module_is_small():
    assert work_for(lambda tensordict: tensordict) == 0


@pytest.mark.parametrize("value", cases(default=[1.5, "many"], also=[0, -1]))
def test_bad_numbers_are_refused(value):
    env = PoolEnv("CartPole-v1", 4)
    with pytest.raises((TypeError, ValueError), match="policy_threads"):
        PoolCollector(env, categorical_actor(env), frames_per_batch=FRAMES, policy_threads=value)
    env.close()
