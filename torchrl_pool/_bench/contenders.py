"""What can be measured: one maker for each contender, from a task, a number of envs and of threads.

A contender's own library is imported by its maker: the command line, which only names them, waits for none.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchrl_pool import _core
from torchrl_pool._bench.gymnasium_env import (
    Unavailable,
    atari_game,
    check_gymnasium_has,
    gymnasium_env,
    require,
)
from torchrl_pool._bench.peer_process import PeerProcess
from torchrl_pool._plugins.names import envpool_id, suite_names
from torchrl_pool._plugins.registry import open_config, task_info

if TYPE_CHECKING:
    import torch
    from torchrl.envs import EnvBase

POOL = "torchrl_pool"
# The peers' processes step Gymnasium's envs and touch nothing that they inherit; others would import torch.
_START = "fork"
ENVPOOL_PYTHON = "TORCHRL_POOL_ENVPOOL_PYTHON"  # environment variable
_HERE = Path(__file__).parent
# What needs a compiler and the simulators' own libraries is not for wheels, but in a checkout's benchmarks/.
_SIMULATOR = "benchmarks/peers/simulator.py"


@dataclass(frozen=True)
class Setup:
    """What a contender is made from.

    Attributes:
        task: the id of a task.
        num_envs: simulators.
        num_threads: threads that step them, where the contender has threads.
        envpool_python: the interpreter that has EnvPool; ``None``: this one.
        max_processes: contenders with a process for each env have no more envs than this.
    """

    task: str
    num_envs: int
    num_threads: int
    envpool_python: str | None = None
    max_processes: int = 16


class Contender:
    """Something that steps envs.

    Args:
        run: makes as many calls as it is told.
        close: frees what it holds.
        each: makes as many calls as it is told and returns the seconds of each.
        envs_per_call: env steps that one call makes.
    """

    def __init__(
        self,
        run: Callable[[int], Any],
        envs_per_call: int,
        close: Callable[[], Any] = lambda: None,
        each: Callable[[int], list[float]] | None = None,
    ) -> None:
        self.run = run
        self.envs_per_call = envs_per_call
        self.close = close
        self._each = each

    def each(self, calls: int) -> list[float]:
        """The seconds of each of so many calls."""
        if self._each is not None:
            return self._each(calls)
        times = [time.perf_counter()]
        for _ in range(calls):
            self.run(1)
            times.append(time.perf_counter())
        return [after - before for before, after in itertools.pairwise(times)]


def _pool(setup: Setup) -> Contender:
    from torchrl_pool._env.pool_env import PoolEnv

    env = PoolEnv(setup.task, setup.num_envs, num_threads=setup.num_threads)
    return _stepped(env, setup.num_envs)


def _pool_async(setup: Setup) -> Contender:
    from torchrl_pool._bench.steppers import AsyncStepper
    from torchrl_pool._env.pool_env import PoolEnv

    batch = _half(setup)
    env = PoolEnv(setup.task, setup.num_envs, num_threads=setup.num_threads)
    return Contender(AsyncStepper(env, batch), batch, env.close)


def _stepped(env: EnvBase, num_envs: int) -> Contender:
    from torchrl_pool._bench.steppers import Stepper

    return Contender(Stepper(env), num_envs, partial(env.close, raise_if_closed=False))


def _half(setup: Setup) -> int:
    """How many envs async contenders receive at a time."""
    if setup.num_envs % 2:
        raise Unavailable("half of the envs at a time: needs an even number of them")
    return setup.num_envs // 2


def _raw(setup: Setup) -> Contender:
    from torchrl_pool._env.specs import full_action_spec, key_of

    info, config = task_info(setup.task), open_config(setup.task, {})
    loop = _core.BareLoop(
        config=config,
        num_envs=setup.num_envs,
        num_threads=setup.num_threads,
        max_episode_steps=info.max_episode_steps or 0,
    )
    num_rows = 1024
    chosen = full_action_spec(
        [config] * num_rows, one_hot=False, device=None, given={}, nested_sizes={}
    ).rand()
    actions = [chosen[key_of(spec)].contiguous() for spec in config.specs if spec.role == "action"]
    addresses = [action.data_ptr() for action in actions]

    def run(calls: int, owner: list[torch.Tensor] = actions) -> None:
        loop.run(calls, addresses, num_rows)

    return Contender(run, setup.num_envs)


def _simulator(setup: Setup) -> Contender:
    program = _HERE.parents[1] / _SIMULATOR
    if not program.exists():
        raise Unavailable(
            f"the bare simulators' loops are in a checkout ({_SIMULATOR}), not in an installed package: "
            "pip install -e . there"
        )
    command = [sys.executable, str(program), setup.task]
    peer = _ready_peer([*command, *map(str, (setup.num_envs, setup.num_threads))])
    return Contender(peer.request, setup.num_envs, peer.close)


def _ready_peer(command: list[str]) -> PeerProcess:
    """A program that answers "ready", or why it is not."""
    try:
        peer = PeerProcess(command)
    except FileNotFoundError:
        raise Unavailable(f"there is no interpreter {command[0]}") from None
    try:
        answer = peer.wait().strip()
    except RuntimeError:
        answer = f"it cannot be started with {command[0]}; see its message above"
    if answer != "ready":
        peer.close()
        raise Unavailable(answer)
    return peer


def _envpool(setup: Setup) -> Contender:
    return _envpool_process(setup, setup.num_envs)


def _envpool_async(setup: Setup) -> Contender:
    return _envpool_process(setup, _half(setup))


def _envpool_process(setup: Setup, batch_size: int) -> Contender:
    python = setup.envpool_python or os.environ.get(ENVPOOL_PYTHON)
    if python is None and find_spec("envpool") is None:
        raise Unavailable(
            "EnvPool is not installed: pip install envpool, here or in an environment of its own, whose "
            "interpreter --envpool-python then names"
        )
    task = envpool_id(setup.task)
    # -W: Gymnasium warns about EnvPool's spaces.
    command = [python or sys.executable, "-Wignore", str(_HERE / "envpool_steps.py"), task]
    peer = _ready_peer([*command, *map(str, (setup.num_envs, batch_size, setup.num_threads))])
    if batch_size < setup.num_envs:
        return Contender(peer.request, batch_size, peer.close)

    def each(calls: int) -> list[float]:  # timed where no pipe is between
        return [float(word) for word in peer.request("each", calls).split()]

    return Contender(peer.request, batch_size, peer.close, each)


def _gymnasium(setup: Setup) -> Contender:
    check_gymnasium_has(setup.task)
    if setup.num_envs == 1:
        return _plain_gymnasium(setup.task)
    from gymnasium.vector import SyncVectorEnv

    return _vector(SyncVectorEnv([partial(gymnasium_env, setup.task)] * setup.num_envs), setup.num_envs)


def _gymnasium_async(setup: Setup) -> Contender:
    check_gymnasium_has(setup.task)
    _check_processes(setup)
    from gymnasium.vector import AsyncVectorEnv

    makers = [partial(gymnasium_env, setup.task)] * setup.num_envs
    return _vector(AsyncVectorEnv(makers, context=_START), setup.num_envs)


def _plain_gymnasium(task: str) -> Contender:
    env = gymnasium_env(task)
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(64)]

    def run(calls: int) -> None:
        for i in range(calls):
            _, _, terminated, truncated, _ = env.step(actions[i % 64])
            if terminated or truncated:
                env.reset()

    return Contender(run, 1, env.close)


def _gymnasium_tensors(setup: Setup) -> Contender:
    check_gymnasium_has(setup.task)
    if setup.num_envs > 1:
        raise Unavailable("only with one env")
    import torch
    from gymnasium.spaces import Discrete

    env = gymnasium_env(setup.task)
    env.reset(seed=0)
    actions = [torch.as_tensor(env.action_space.sample()) for _ in range(64)]
    number_or_array = torch.Tensor.item if isinstance(env.action_space, Discrete) else torch.Tensor.numpy

    def run(calls: int) -> None:
        for i in range(calls):
            action = number_or_array(actions[i % 64])
            observation, reward, terminated, truncated, _ = env.step(action)
            torch.as_tensor(observation)
            torch.tensor(float(reward))
            for flag in (terminated, truncated, terminated or truncated):
                torch.tensor(flag)
            if terminated or truncated:
                torch.as_tensor(env.reset()[0])

    return Contender(run, 1, env.close)


def _vector(env: Any, num_envs: int) -> Contender:
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(64)]

    def run(calls: int) -> None:
        for i in range(calls):
            env.step(actions[i % 64])

    return Contender(run, num_envs, env.close)


def _torchrl(setup: Setup) -> Contender:
    if task_info(setup.task).family == "dm_control":
        require("dm_control")
    else:
        check_gymnasium_has(setup.task)
    if setup.num_envs == 1:
        return _stepped(torchrl_env(setup.task), 1)
    _check_processes(setup)
    from torchrl.envs import ParallelEnv

    env = ParallelEnv(setup.num_envs, partial(torchrl_env, setup.task), mp_start_method=_START)
    return _stepped(env, setup.num_envs)


def torchrl_env(task: str) -> EnvBase:
    """TorchRL's env around the env that a task reproduces."""
    from torchrl.envs import DMControlEnv, GymWrapper

    if task_info(task).family == "dm_control":
        return DMControlEnv(*suite_names(task))
    return GymWrapper(gymnasium_env(task))


def _ale(setup: Setup) -> Contender:
    if task_info(setup.task).family != "atari":
        raise Unavailable(f"ale-py plays Atari games, not {setup.task}")
    check_gymnasium_has(setup.task)
    from ale_py.vector_env import AtariVectorEnv

    env = AtariVectorEnv(atari_game(setup.task), setup.num_envs, num_threads=setup.num_threads)
    return _vector(env, setup.num_envs)


def _check_processes(setup: Setup) -> None:
    if setup.num_envs > setup.max_processes:
        raise Unavailable(
            f"a process for each of {setup.num_envs} envs; --max-processes is {setup.max_processes}"
        )


CONTENDERS: dict[str, tuple[Callable[[Setup], Contender], str]] = {
    POOL: (_pool, "PoolEnv.step_and_maybe_reset"),
    f"{POOL}-async": (_pool_async, "the same envs in flight: half of them are received at a time"),
    "raw": (_raw, "the task's C++ envs on plain threads: no pool, no Python, outputs thrown away"),
    "simulator": (_simulator, "mj_step, or ALE's act, on as many threads, and nothing else (in a checkout)"),
    "envpool": (_envpool, "EnvPool's step"),
    "envpool-async": (_envpool_async, "EnvPool's recv and send: half of the envs at a time"),
    "gymnasium": (_gymnasium, "Gymnasium's env, or a loop over them (SyncVectorEnv)"),
    "gymnasium-tensors": (_gymnasium_tensors, "Gymnasium's env with tensors in and out, one env"),
    "gymnasium-async": (_gymnasium_async, "a process for each of Gymnasium's envs (AsyncVectorEnv)"),
    "torchrl": (_torchrl, "TorchRL's GymEnv or DMControlEnv, or a process for each (ParallelEnv)"),
    "ale": (_ale, "ale-py's AtariVectorEnv"),
}
PEERS_BY_DEFAULT = ("raw", "simulator", "envpool", "gymnasium", "torchrl", "ale")


def make(name: str, setup: Setup) -> Contender:
    """A contender, ready to step.

    Raises:
        Unavailable: it cannot be measured here; the message says why, and what would change that.
    """
    return CONTENDERS[name][0](setup)
