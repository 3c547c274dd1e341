"""MultiThreadedEnv, the stand-in for TorchRL's class of that name."""

import inspect
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torchrl.envs
from cases import cases
from comparing import assert_same
from small_envs import TASKS, N
from torchrl.data import Categorical
from torchrl.envs import FrameSkipTransform
from torchrl.envs.utils import check_env_specs
from torchrl.testing import env_creators

from torchrl_pool import MultiThreadedEnv, PoolEnv


def test_multi_threaded_env_takes_torchrls_arguments():
    def parameters(cls):
        return inspect.signature(cls.__init__).parameters

    ours, theirs = parameters(MultiThreadedEnv), parameters(torchrl.envs.MultiThreadedEnv)
    assert list(ours)[: len(theirs) - 1] == [name for name in theirs if name != "kwargs"]
    for name, parameter in theirs.items():
        assert ours[name].kind == parameter.kind
        assert ours[name].default == parameter.default
    documented = {
        "categorical_action_encoding",
        "disable_env_checker",
        "frame_skip",
        "device",
        "allow_done_after_reset",
    }
    assert all(f"{name} (" in torchrl.envs.MultiThreadedEnv.__doc__ for name in documented)
    assert documented < set(ours)


def test_multi_threaded_env_is_a_pool_env():
    kwargs = {"seed": 0, "num_threads": 1, "max_episode_steps": 9, "sutton_barto_reward": True}
    env = MultiThreadedEnv(
        num_workers=N, env_name="CartPole-v1", create_env_kwargs=kwargs, disable_env_checker=True
    )
    assert isinstance(env, PoolEnv)
    assert (env.num_workers, env.env_name, env.num_threads) == (N, "CartPole-v1", 1)
    assert env.device == torch.device("cpu")
    assert isinstance(env.action_spec, Categorical)
    pool = PoolEnv("CartPole-v1", N, device="cpu", categorical_action_encoding=True, **kwargs)
    a, b = env.reset(), pool.reset()
    for _ in range(30):
        a["action"] = b["action"] = torch.randint(2, (N,))
        a, a_root = env.step_and_maybe_reset(a)
        b, b_root = pool.step_and_maybe_reset(b)
        assert_same(a, b)
        assert_same(a_root, b_root)
        a, b = a_root, b_root


@pytest.mark.parametrize("task", cases(["Pendulum-v1", "CartPole-v1"]))
@pytest.mark.parametrize("transformed", cases([False, True]))
def test_torchrls_own_helper_makes_ours(task, transformed, monkeypatch):
    """That of its tests of the class, with its frame skip and its transforms."""
    monkeypatch.setattr(env_creators, "MultiThreadedEnv", MultiThreadedEnv)
    env = env_creators.make_multithreaded_env(task, 4, transformed, N)
    check_env_specs(env)
    data = env.rollout(10, break_when_any_done=False)
    assert data.shape == (N, 10)
    assert not data.is_shared()
    env.close(raise_if_closed=False)


def new_env(seed=5):
    return MultiThreadedEnv(N, "CartPole-v1", create_env_kwargs={"seed": seed, "num_threads": 2})


def reset_env():
    env = new_env()
    env.reset()
    return env


FIRST_CALLS = {
    "step": lambda env: env.step(env.rand_action())["next"],
    "_step": lambda env: env._step(env.rand_action()),
    "step_and_maybe_reset": lambda env: env.step_and_maybe_reset(env.rand_action())[0]["next"],
    "rand_step": lambda env: env.rand_step()["next"],
    "masked step": lambda env: env.step(env.rand_action().set("_step", torch.arange(N) % 2 == 0))["next"],
    "async step": lambda env: async_step(env)["next"],
    "render": lambda env: env.render(),
    "get_state": lambda env: env.get_state(),
}


def async_step(env):
    env.async_step_send(env.rand_action())
    return env.async_step_recv(N)


@pytest.mark.parametrize("call", cases(default=["_step", "rand_step"], also=FIRST_CALLS))
def test_any_first_call_resets_the_envs_before(call):
    """As in TorchRL's class: what follows is what follows after a reset."""
    results = []
    for make in (new_env, reset_env):
        torch.manual_seed(0)
        env = make()
        first = FIRST_CALLS[call](env)
        results.append((first, env.rand_step()["next"]))
    (first, then), (expected_first, expected_then) = results
    if call == "get_state":
        assert first == expected_first
    else:
        assert (first == expected_first).all()
    assert_same(then, expected_then)


def test_first_steps_from_several_threads():
    for _ in range(20):
        env, twin = new_env(), reset_env()
        root = twin.rand_action()
        with ThreadPoolExecutor(N) as threads:
            list(threads.map(lambda i, env=env, root=root: env.async_step_send(root[[i]], [i]), range(N)))
        assert_same(env.async_step_recv(N)["next"], twin.step(root)["next"])
        env.close()


def test_a_reset_is_not_repeated_by_the_first_step():
    env, pool = new_env(), PoolEnv("CartPole-v1", N, seed=5, device="cpu", categorical_action_encoding=True)
    for e in (env, pool):
        e.reset()
    action = pool.rand_action()
    assert_same(env.step(action.clone())["next"], pool.step(action)["next"])


@pytest.mark.parametrize("before", cases(default=["nothing", "reset"], also=["step"]))
def test_no_step_after_close(before):
    env = new_env()
    action = env.rand_action()
    if before != "nothing":
        getattr(env, before)(*([action.clone()] if before == "step" else []))
    env.close()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"before the first step|was closed"):
            env.step(action.clone())
    env.reset()
    env.step(action)


def test_a_copy_made_before_the_first_step_is_new_too():
    env = pickle.loads(pickle.dumps(new_env()))
    assert env.is_closed
    action = env.rand_action()
    assert_same(env.step(action.clone())["next"], reset_env().step(action)["next"])


@pytest.mark.parametrize("task", cases(default=["CartPole-v0", "MountainCar-v0"], also=TASKS))
def test_frame_skip_repeats_the_action_and_sums_rewards(task):
    env = MultiThreadedEnv(N, task, frame_skip=4, create_env_kwargs={"seed": 0})
    assert isinstance(env.transform, FrameSkipTransform)
    check_env_specs(env)
    env.set_seed(0)
    twin = MultiThreadedEnv(N, task, create_env_kwargs={"seed": 0})
    root, twin_root = env.reset(), twin.reset()
    for _ in range(2):  # 8 frames: no CartPole falls that fast
        action = env.rand_action()["action"]
        td = env.step(root.set("action", action))
        total = 0
        for _ in range(4):
            twin_td = twin.step(twin_root.set("action", action))
            total = total + twin_td["next", "reward"]
            twin_root = twin.step_mdp(twin_td)
        assert torch.equal(td["next", "reward"], total)
        assert torch.equal(td["next", "observation"], twin_td["next", "observation"])
        root = env.step_mdp(td)


@pytest.mark.parametrize("frame_skip", cases([None, 1]))
def test_no_frame_skip(frame_skip):
    env = MultiThreadedEnv(N, "CartPole-v1", frame_skip=frame_skip)
    assert type(env) is MultiThreadedEnv
