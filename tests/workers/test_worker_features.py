"""Collectors, fused transforms, async calls, states and more: as for tasks, so for envs of Python."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import dataclass
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from cases import cases
from comparing import assert_same
from gymnasium import spaces
from python_envs import WHERE, Sampled, Scripted, Sleeping
from torchrl.envs import Compose, FrameSkipTransform, GymEnv, RewardSum, StepCounter, TransformedEnv

from torchrl_pool import EnvFailure, PoolEnv, fuse
from torchrl_pool._env import python_source

CARTPOLE = "gymnasium:CartPole-v1"


@pytest.mark.parametrize(
    "transforms",
    cases([(RewardSum, partial(StepCounter, 9)), (partial(FrameSkipTransform, 3), RewardSum)]),
    ids=["StepCounter", "FrameSkip"],
)
@pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)
def test_fused_transforms(make_pool, transforms, where):
    """Those too that end episodes, or make several steps of one: the workers are asked once more."""

    def rollouts(make):
        env = make(TransformedEnv(make_pool(**where), Compose(*(t() for t in transforms))))
        env.set_seed(0)
        torch.manual_seed(0)
        return [env.rollout(50, break_when_any_done=False) for _ in range(2)]

    for ours, theirs in zip(rollouts(fuse), rollouts(lambda env: env), strict=True):
        if transforms[0] is not RewardSum:  # ours stops at the end of an episode
            ours, theirs = ours[:, :2], theirs[:, :2]
        assert_same(ours, theirs)


@pytest.mark.parametrize("num_workers", cases([3, 0]))
def test_async_exactly_once_from_three_threads(make_pool, num_workers):
    """Each env's steps come in order, none twice, none lost."""
    num_envs, rounds = 9, 60
    pool = make_pool(partial(Scripted, {}), num_envs, num_workers=num_workers)
    root = pool.reset()
    root["action"] = pool.action_spec.rand()
    pool.async_step_send(root, range(num_envs))
    seen, lock = [[] for _ in range(num_envs)], threading.Lock()
    errors = []

    def work():
        try:
            for _ in range(rounds):
                data = pool.async_step_recv(1, max_get=3)
                envs = list(data["env_index"])
                with lock:
                    for env, value in zip(envs, data["next", "observation"][:, 0].tolist(), strict=True):
                        seen[env].append(round(value * 100))
                pool.async_step_send(root[envs], envs)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    data = pool.async_step_recv(num_envs)
    for env, value in zip(list(data["env_index"]), data["next", "observation"][:, 0].tolist(), strict=True):
        seen[env].append(round(value * 100))
    assert all(steps == list(range(1, len(steps) + 1)) for steps in seen)
    assert sum(map(len, seen)) >= 3 * rounds + num_envs


def test_those_that_are_ready_come_first(make_pool):
    makers = [partial(Sleeping, 0.5 if env == 0 else 0.0) for env in range(4)]
    pool = make_pool(makers, 4, num_workers=4)
    root = pool.reset()
    root["action"] = pool.action_spec.rand()
    pool.async_step_send(root, range(4))
    assert list(pool.async_step_recv(3)["env_index"]) == [1, 2, 3]
    assert list(pool.async_step_recv(1)["env_index"]) == [0]


def test_callables_without_a_hash(make_pool):
    @dataclass
    class Maker:
        episode: int

        def __call__(self):
            return Sampled(episode=self.episode)

    pool = make_pool([Maker(3), Maker(4)], 2)
    assert "Maker(episode=3)" in repr(pool)
    assert pool.reset().shape == torch.Size([2])


@pytest.mark.parametrize("where", cases(WHERE.values()), ids=WHERE)
def test_calls_and_attributes(make_pool, where):
    pool = make_pool(Sampled, 5, **where)
    pool.reset()
    assert pool.get_attr("steps") == [0] * 5
    pool.set_attr("steps", [10, 20], env_index=[3, 1])
    assert pool.get_attr("steps") == [0, 20, 0, 10, 0]
    pool.set_attr("label", "x")
    assert pool.get_attr("label", env_index=2) == ["x"]
    assert pool.call(
        "has_wrapper_attr", "label", env_index=torch.tensor([True, False, True, False, False])
    ) == [
        True,
        True,
    ]
    with pytest.raises(EnvFailure, match=r"AttributeError.*nothing") as raised:
        pool.call("nothing", env_index=4)
    assert raised.value.env_index == [4]
    assert "Traceback" in raised.value.messages[0]
    with pytest.raises(ValueError, match="expected 5"):
        pool.set_attr("label", [1, 2])
    root = pool.reset()
    root["action"] = pool.action_spec.rand()
    assert pool.step(root)["next", "reward"].flatten().tolist() == [0.5] * 5  # a failed call ends nothing
    with pytest.raises(TypeError, match="expected a pool of Python envs"):
        PoolEnv("CartPole-v1", 2).get_attr("steps")


def test_arguments_that_make_no_sense():
    for options, what in (
        ({"num_threads": 2}, "num_threads"),
        ({"from_pixels": True}, "from_pixels"),
        ({"gravity": 3.0}, "gravity"),
        ({"thread_affinity": [0]}, "thread_affinity"),
    ):
        with pytest.raises(TypeError, match=what):
            PoolEnv(Sampled, 2, **options)
    with pytest.raises(TypeError, match="num_workers"):
        PoolEnv("CartPole-v1", 2, num_workers=1)
    with pytest.raises(TypeError, match=r"expected a callable that returns an env, got an env \(Sampled\)"):
        PoolEnv(Sampled(), 2)
    with pytest.raises(ValueError, match="expected one callable or 3"):
        PoolEnv([Sampled] * 2, 3)
    with pytest.raises(TypeError, match="obs_dtype"):
        PoolEnv(partial(GymEnv, "CartPole-v1"), 2, obs_dtype=torch.float64)


def test_without_what_only_linux_has(make_pool, monkeypatch):
    """There are no worker processes then, and no memory that is a file without a disk."""
    torch.manual_seed(0)
    expected = make_pool(seed=3).rollout(20, break_when_any_done=False)
    monkeypatch.setattr(python_source, "HAS_PROCESSES", False)
    monkeypatch.delattr(os, "memfd_create")
    torch.manual_seed(0)
    assert (make_pool(seed=3, num_workers=0).rollout(20, break_when_any_done=False) == expected).all()
    with pytest.raises(ValueError, match="worker processes need Linux"):
        make_pool()


class Doubles(Sampled):
    """Returns doubles where its space says floats, and integers for rewards."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=options)[0].astype(np.float64), {}

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation.astype(">f8")[::-1], np.array([3]), *rest


def test_other_dtypes_of_a_kind(make_pool):
    """They are cast, as GymEnv casts them."""
    pool, single = make_pool(Doubles, 1), Doubles()
    root = pool.reset(seed=0)
    assert torch.equal(root["observation"][0], torch.from_numpy(single.reset(seed=0)[0]).float())
    root["action"] = pool.action_spec.rand()
    step = pool.step(root)["next"]
    assert torch.equal(step["observation"][0], torch.tensor(single.step(0)[0].tolist()))
    assert step["reward"].item() == 3


def test_float_dtype(make_pool):
    assert make_pool(obs_dtype=torch.float64).reset()["observation"].dtype is torch.float64


class Tells(Sampled):
    """Tells in which process it is."""

    def where(self):
        return os.getpid()


PROGRAM = """
    import os, signal, sys, time
    import gymnasium
    from torchrl_pool import PoolEnv

    class Slow(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (3,))
        action_space = gymnasium.spaces.Discrete(2)
        def reset(self, seed=None, options=None):
            return self.observation_space.sample(), {}
        def step(self, action):
            time.sleep(30)

    pool = PoolEnv(lambda: Slow(), 4, num_workers=2)
    root = pool.reset()
    root["action"] = pool.action_spec.rand()
    try:
        print(*(worker.pid for worker in pool._source.workers._workers), flush=True)
        pool.step(root)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        pool.close()
        print("closed", flush=True)
"""


@pytest.mark.parametrize("how", ["interrupt", "kill"])
def test_the_end_of_the_process(how):
    """Ctrl-C is heeded at once and closes cleanly; who is killed leaves no worker. No guard of __main__."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as program:
        pids = list(map(int, program.stdout.readline().split()))
        assert len(pids) == 2
        time.sleep(0.3)
        os.killpg(program.pid, signal.SIGINT) if how == "interrupt" else program.kill()
        if how == "interrupt":
            assert program.stdout.readline() == "interrupted\n"
            out, err = program.communicate(timeout=20)  # the step alone would take longer
            assert (out, err, program.returncode) == ("closed\n", "", 0)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and any(os.path.exists(f"/proc/{pid}") for pid in pids):
            time.sleep(0.02)
        assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_arrays_given_to_envs_are_theirs(make_pool):
    """An env may keep its actions."""

    class Keeping(Sampled):
        def __init__(self):
            super().__init__(action_space=gymnasium.spaces.Box(-1, 1, (2,)))
            self.kept = []

        def step(self, action):
            self.kept.append((action, action.copy()))
            return super().step(action)

        def is_kept(self):
            return all(np.array_equal(action, copied) for action, copied in self.kept)

    pool = make_pool(Keeping, 4)
    pool.rollout(20, break_when_any_done=False)
    assert pool.call("is_kept") == [True] * 4


class OfManyObjectives(Sampled):
    reward_space = spaces.Box(-1, 1, (2,))

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, np.array([reward, -reward]), terminated, truncated, info


def test_rewards_that_are_vectors(make_pool):
    """As MO-Gymnasium's envs have them."""
    pool = make_pool(OfManyObjectives, 2)
    rewards = pool.rollout(4, break_when_any_done=False)["next", "reward"]
    assert rewards.shape == (2, 4, 2)
    assert torch.equal(rewards[..., 0], -rewards[..., 1])
    assert pool.reward_spec.shape == (2, 2)


class Weighed(gymnasium.Wrapper):
    def step(self, action):
        observation, rewards, *rest = self.env.step(action)
        return observation, float(rewards @ [0.5, 0.25]), *rest


def test_rewards_that_a_wrapper_has_made_one_number(make_pool):
    pool = make_pool(lambda: Weighed(OfManyObjectives()), 2)
    assert pool.rollout(3)["next", "reward"].shape == (2, 3, 1)


def test_envs_of_a_closed_pool_are_not_asked(make_pool):
    pool = make_pool()
    pool.reset()
    pool.close()
    with pytest.raises(RuntimeError, match=r"was closed: reset\(\) starts it again"):
        pool.get_attr("gravity")
    pool.reset()
    assert pool.get_attr("gravity") == [9.8] * 6


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize(
    ("name", "message"),
    cases(
        default=[
            (
                "CartPol-v1",
                "Environment `CartPol` doesn't exist. Did you mean: `CartPole`?\nWhere a package regis",
            ),
            ("nowhere:CartPole-v1", "No module named 'nowhere'"),
            ("", "Malformed environment ID"),
        ],
        also=[("CartPole-v7", "Environment version `v7` for environment `CartPole` doesn't exist")],
    ),
)
def test_ids_that_gymnasium_refuses_are_said_in_a_sentence(name, message, num_workers):
    with pytest.raises(EnvFailure) as failure:
        PoolEnv(f"gymnasium:{name}", 2, num_workers=num_workers)
    assert str(failure.value).startswith(f"task 'gymnasium:{name}': {message}")
    assert "Traceback" not in str(failure.value)


def test_what_envs_raise_has_its_traceback(monkeypatch):
    class Unmakeable(gymnasium.Env):
        def __init__(self):
            raise gymnasium.error.DependencyNotInstalled("it needs a ship")

    monkeypatch.setattr(gymnasium.envs.registration, "registry", {})
    gymnasium.register("Unmakeable-v0", Unmakeable)
    with pytest.raises(EnvFailure, match=r"(?s)it needs a ship.*Traceback"):
        PoolEnv("gymnasium:Unmakeable-v0", 1, num_workers=0)


def test_an_id_that_nobody_has_registered():
    with pytest.raises(EnvFailure, match=r"name that first, as in 'gymnasium:minigrid:"):
        PoolEnv("gymnasium:NoSuchEnv-v0", 2, num_workers=1)
    with pytest.raises(EnvFailure, match=r"(?s)Traceback.*name that first, as in 'gymnasium:minigrid:"):
        PoolEnv(lambda: gymnasium.make("NoSuchEnv-v0"), 2, num_workers=1)
