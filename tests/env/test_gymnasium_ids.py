"""Tasks under Gymnasium's ids, and without Gymnasium."""

from types import SimpleNamespace
from unittest.mock import patch

import gymnasium
import pytest
import torch
from cases import cases
from gymnasium.vector import AutoresetMode
from processes import printed
from torchrl.envs import GymEnv, GymWrapper

import torchrl_pool.gymnasium
from torchrl_pool import list_tasks
from torchrl_pool._plugins.names import gymnasium_id
from torchrl_pool.gymnasium import PoolVectorEnv, register_tasks


def test_every_task_is_registered():
    register_tasks()  # other tests have loaded plugins since
    for task in list_tasks():
        if task.startswith(("mpe2/", "sisl/")):  # Gymnasium has neither such ids nor envs of many agents
            assert gymnasium_id(task) is None
            continue
        spec = gymnasium.spec(f"torchrl_pool/{task.rsplit('/')[-1]}")
        assert spec.kwargs == {"task": task}


@pytest.mark.parametrize(
    "name", cases(["torchrl_pool/CartPole-v1", "torchrl_pool.gymnasium:torchrl_pool/CartPole-v1"])
)
def test_make_vec(name):
    envs = gymnasium.make_vec(name, num_envs=3, autoreset_mode="SameStep", max_episode_steps=2)
    assert type(envs) is PoolVectorEnv
    assert envs.spec.id == "torchrl_pool/CartPole-v1"
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    envs.reset(seed=0)
    envs.step([0, 1, 0])
    assert envs.step([0, 1, 0])[3].all()
    again = gymnasium.make_vec(envs.spec)
    assert again.num_envs == 3
    assert again.metadata == envs.metadata
    envs.close()
    again.close()


def test_the_tasks_own_limit_holds():
    envs = gymnasium.make_vec("torchrl_pool/Pendulum-v1", num_envs=1)
    envs.reset(seed=0)
    flags = [envs.step(envs.action_space.sample())[3][0] for _ in range(200)]
    assert flags == [False] * 199 + [True]
    envs.close()


def test_registering_twice_changes_nothing():
    register_tasks()
    before = dict(gymnasium.registry)
    register_tasks()
    assert gymnasium.registry == before


def test_ids_that_gymnasium_refuses_are_left_out(monkeypatch):
    ids = ["", "Stroll", "Stroll-v0", "my walk", "Last-v0"]
    info = SimpleNamespace(max_episode_steps=None, reward_threshold=None)
    monkeypatch.setattr(torchrl_pool.gymnasium, "list_tasks", lambda: ids)
    monkeypatch.setattr(torchrl_pool.gymnasium, "task_info", lambda task: info)
    with patch.dict(gymnasium.registry):
        with pytest.warns(RuntimeWarning) as warned:
            register_tasks()
        added = [task for task in ids if f"torchrl_pool/{task}" in gymnasium.registry]
    refused = [task for task in ids if any(f"task {task!r} is not" in str(w.message) for w in warned)]
    assert sorted(added + refused) == sorted(ids)
    assert {"", "my walk"} < set(refused)
    assert "Last-v0" in added


def test_gymnasium_is_needed_here_only():
    program = """
    import sys
    sys.modules["gymnasium"] = None
    import torchrl_pool
    print(len(torchrl_pool.list_tasks()) > 100)
    try:
        import torchrl_pool.gymnasium
    except ImportError as error:
        print(error)
    """
    out = printed("\n".join(line[4:] for line in program.splitlines()))
    assert out == "True\ntorchrl_pool.gymnasium needs Gymnasium: pip install gymnasium\n"


def test_torchrl_wraps_the_vector_env():
    """As it does Gymnasium's own, where the mode is one that it takes."""
    envs = gymnasium.make_vec("torchrl_pool/CartPole-v1", 3, autoreset_mode="SameStep")
    options = {"autoreset_mode": AutoresetMode.SAME_STEP}
    same = gymnasium.make_vec("CartPole-v1", 3, vectorization_mode="sync", vector_kwargs=options)
    seen = []
    for env in (GymWrapper(envs), GymWrapper(same)):
        torch.manual_seed(0)
        env.set_seed(1)
        seen.append(env.rollout(60, break_when_any_done=False))
        env.close()
    assert seen[0]["next", "done"].any()
    assert (seen[0] == seen[1]).all()


def test_torchrl_is_referred_to_the_pool():
    """Its own class makes one env, and others beside it."""
    with pytest.raises(gymnasium.error.Error, match=r"in TorchRL PoolEnv\('CartPole-v1', num_envs=1\)"):
        GymEnv("torchrl_pool/CartPole-v1", num_envs=3)
