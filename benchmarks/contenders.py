"""What the benchmarks of steps compare: a table of contenders, each made for a task and a number of envs."""

from __future__ import annotations

import ctypes
import importlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import torch
from tensordict import TensorDictBase
from torchrl.envs import DMControlEnv, EnvBase, GymWrapper, ParallelEnv, PettingZooWrapper

from torchrl_pool import PoolEnv, task_info
from torchrl_pool._plugins.building import compile_plugin
from torchrl_pool._plugins.names import envpool_id, suite_names

POOL = "torchrl_pool"
PEERS = Path(__file__).parent / "peers"
STOCK = 64  # batches of actions, drawn beforehand and taken in turn
ENVPOOL_PYTHON = "TORCHRL_POOL_ENVPOOL_PYTHON"  # environment variable: the interpreter that has EnvPool
MAX_PROCESSES = 16  # contenders with a process for each env have no more envs than this
MAX_PYTHON_ENVS = 256  # nor those that step Python's envs one after the other than this


class Unavailable(Exception):
    """Why something cannot be measured, besides a package that is missing or an env that Gymnasium lacks."""


@dataclass(frozen=True)
class Case:
    """What a contender is made for: a task, envs, and threads that step them, where it has threads."""

    task: str
    num_envs: int
    num_threads: int


@dataclass
class Contender:
    """Something that steps envs."""

    run: Callable[[int], Any]  # makes a given number of calls
    num_envs: int
    close: Callable[[], Any]
    each: Callable[[int], list[float]] | None = None  # the same, and returns the seconds of each

    def seconds_of_each(self, calls: int) -> list[float]:
        if self.each is not None:
            return self.each(calls)
        times = [time.perf_counter()]
        for _ in range(calls):
            self.run(1)
            times.append(time.perf_counter())
        return [after - before for before, after in itertools.pairwise(times)]


# ---- TorchRL's envs, the pool among them


class Stepper:
    """Calls ``step_and_maybe_reset``, as a collector whose policy costs nothing."""

    def __init__(self, env: EnvBase) -> None:
        self.env = env
        self.root: TensorDictBase = env.reset()
        keys = [key if isinstance(key, tuple) else (key,) for key in env.action_keys]
        self.actions = [
            [(key, drawn[key]) for key in keys] for drawn in (env.rand_action() for _ in range(STOCK))
        ]
        self.position = 0

    def __call__(self, calls: int) -> None:
        env, root, actions = self.env, self.root, self.actions
        for i in range(self.position, self.position + calls):
            for key, action in actions[i % STOCK]:
                # The cheapest way that tensordict has: what the policy does is not measured.
                root._set_tuple(key, action, inplace=False, validated=True)
            _, root = env.step_and_maybe_reset(root)
        self.root = root
        self.position += calls


def _stepped(env: EnvBase, num_envs: int) -> Contender:
    return Contender(Stepper(env), num_envs, partial(env.close, raise_if_closed=False))


def _pool(case: Case) -> Contender:
    return _stepped(PoolEnv(case.task, case.num_envs, num_threads=case.num_threads), case.num_envs)


def _torchrl(case: Case) -> Contender:
    make = partial(_torchrl_env, case.task)
    if case.num_envs == 1:
        return _stepped(make(), 1)
    _check_processes(case)
    make().close()  # raises here, and not in a process, why there is none
    return _stepped(ParallelEnv(case.num_envs, make, mp_start_method="fork"), case.num_envs)


def _torchrl_env(task: str) -> EnvBase:
    """TorchRL's env around the env that a task reproduces."""
    match task_info(task).family:
        case "dm_control":
            return DMControlEnv(*suite_names(task))
        case "mpe" | "sisl":
            return PettingZooWrapper(_parallel_env(task))
        case _:
            return GymWrapper(_gymnasium_env(task))


def _workers(case: Case) -> Contender:
    _check_python_envs(case)
    make = partial(_torchrl_env, case.task)
    return _stepped(PoolEnv(make, case.num_envs, num_workers=case.num_threads), case.num_envs)


def _check_processes(case: Case) -> None:
    if case.num_envs > MAX_PROCESSES:
        raise Unavailable(f"a process for each of {case.num_envs} envs: measured up to {MAX_PROCESSES}")


def _check_python_envs(case: Case) -> None:
    if case.num_envs > MAX_PYTHON_ENVS:
        raise Unavailable(f"{case.num_envs} envs of Python: measured up to {MAX_PYTHON_ENVS}")


# ---- C++ and other processes


def _raw(case: Case) -> Contender:
    library = ctypes.CDLL(str(compile_plugin(PEERS / "bare_loop.cc", flags=["-pthread", "-ldl"])))
    library.bare_loop_open.restype = ctypes.c_void_p
    library.bare_loop_run.restype = ctypes.c_bool
    pool = PoolEnv(case.task, 1024, categorical_action_encoding=True)
    drawn = pool.rand_action()
    keys = pool.full_action_spec.keys(True, True)  # in the order of the task's specs; action_keys are sorted
    rows = torch.cat([drawn[key].reshape(1024, -1).view(torch.uint8) for key in keys], 1)
    plugin, message = task_info(case.task).plugin_path, ctypes.create_string_buffer(1024)
    loop = ctypes.c_void_p(
        library.bare_loop_open(plugin.encode(), case.task.encode(), case.num_envs, case.num_threads, message)
    )
    if not loop:
        raise RuntimeError(message.value.decode())

    def run(calls: int) -> None:
        actions, num_rows = ctypes.c_void_p(rows.data_ptr()), ctypes.c_int64(len(rows))
        if not library.bare_loop_run(loop, ctypes.c_int64(calls), actions, num_rows, message):
            raise RuntimeError(message.value.decode())

    return Contender(run, case.num_envs, partial(library.bare_loop_close, loop))


class PeerProcess:
    """A program that answers each line that it reads with one line, when it has done what the line says."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait(self) -> str:
        """The next answer."""
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the peer's process ended; see its message above")
        return answer

    def request(self, *words: object) -> str:
        assert self._process.stdin is not None
        print(*words, file=self._process.stdin, flush=True)
        return self.wait()

    def close(self) -> None:
        # Closing its input would not end it: forked processes of other contenders hold the pipe too.
        self._process.terminate()
        self._process.communicate()


def _envpool(case: Case) -> Contender:
    python = os.environ.get(ENVPOOL_PYTHON)
    if python is None and find_spec("envpool") is None:
        raise Unavailable(
            "EnvPool is not installed: pip install envpool, here or in an environment of its own, whose "
            f"interpreter ${ENVPOOL_PYTHON} then names"
        )
    # -W: Gymnasium warns about EnvPool's spaces.
    command = [python or sys.executable, "-Wignore", str(PEERS / "envpool_steps.py"), envpool_id(case.task)]
    try:
        peer = PeerProcess([*command, *map(str, (case.num_envs, case.num_threads))])
        answer = peer.wait().strip()
    except FileNotFoundError:
        raise Unavailable(f"there is no interpreter {command[0]}") from None
    except RuntimeError:
        answer = f"it cannot be started with {command[0]}; see its message above"
    if answer != "ready":
        peer.close()
        raise Unavailable(answer)

    def each(calls: int) -> list[float]:  # timed there, without the pipe
        return [float(word) for word in peer.request("each", calls).split()]

    return Contender(peer.request, case.num_envs, peer.close, each)


# ---- Gymnasium


def _gymnasium_env(task: str) -> Any:
    """A Gymnasium env with the task's observations, rewards and episodes."""
    family = task_info(task).family
    if family == "mujoco":
        import mujoco

        # It warns about Gymnasium's own models, in a file too.
        mujoco.set_mju_user_warning(lambda message: None)
    if family != "atari":
        return gymnasium.make(task, disable_env_checker=True)
    import ale_py
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    gymnasium.register_envs(ale_py)
    env = gymnasium.make(task, frameskip=1, disable_env_checker=True)
    return FrameStackObservation(AtariPreprocessing(env), stack_size=4)


def _vector(envs: Any, num_envs: int) -> Contender:
    envs.reset(seed=0)
    actions = [envs.action_space.sample() for _ in range(STOCK)]

    def run(calls: int) -> None:
        for i in range(calls):
            envs.step(actions[i % STOCK])

    return Contender(run, num_envs, envs.close)


def _gymnasium(case: Case) -> Contender:
    if case.num_envs == 1:
        return _one_gymnasium_env(case.task)
    makers = [partial(_gymnasium_env, case.task)] * case.num_envs
    return _vector(gymnasium.vector.SyncVectorEnv(makers), case.num_envs)


def _gymnasium_async(case: Case) -> Contender:
    _check_processes(case)
    makers = [partial(_gymnasium_env, case.task)] * case.num_envs
    return _vector(gymnasium.vector.AsyncVectorEnv(makers, context="fork"), case.num_envs)


def _gymnasium_tensors(case: Case) -> Contender:
    if case.num_envs > 1:
        raise Unavailable("only with one env")
    return _one_gymnasium_env(case.task, tensors=True)


def _one_gymnasium_env(task: str, *, tensors: bool = False) -> Contender:
    env = _gymnasium_env(task)
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(STOCK)]
    stored = [torch.as_tensor(action) for action in actions]

    def run(calls: int) -> None:
        for i in range(calls):
            *_, terminated, truncated, _ = env.step(actions[i % STOCK])
            if terminated or truncated:
                env.reset()

    def run_with_tensors(calls: int) -> None:
        for i in range(calls):
            action = stored[i % STOCK]
            observation, reward, *flags, _ = env.step(action.item() if action.ndim == 0 else action.numpy())
            torch.as_tensor(observation)
            torch.tensor(float(reward))
            for flag in (*flags, any(flags)):
                torch.tensor(flag)
            if any(flags):
                torch.as_tensor(env.reset()[0])

    return Contender(run_with_tensors if tensors else run, 1, env.close)


def _ale(case: Case) -> Contender:
    if task_info(case.task).family != "atari":
        raise Unavailable(f"ale-py plays Atari games, not {case.task}")
    import ale_py
    from ale_py.vector_env import AtariVectorEnv

    gymnasium.register_envs(ale_py)
    game = gymnasium.spec(case.task).kwargs["game"]
    return _vector(AtariVectorEnv(game, case.num_envs, num_threads=case.num_threads), case.num_envs)


# ---- envs of many agents


def _parallel_env(task: str) -> Any:
    """The env of all agents, of mpe2 or PettingZoo, that a task reproduces."""
    if task_info(task).family not in ("mpe", "sisl"):
        raise Unavailable(f"{task} has one agent")
    name = task.replace("sisl/", "pettingzoo.sisl/").replace("/", ".")
    return importlib.import_module(name).parallel_env()


def _pettingzoo(case: Case) -> Contender:
    _check_python_envs(case)
    envs = [_parallel_env(case.task) for _ in range(case.num_envs)]
    for env in envs:
        env.reset(seed=0)
    actions = [{name: envs[0].action_space(name).sample() for name in envs[0].agents} for _ in range(STOCK)]

    def run(calls: int) -> None:
        for i in range(calls):
            for env in envs:
                env.step(actions[i % STOCK])
                if not env.agents:
                    env.reset()

    return Contender(run, case.num_envs, lambda: [env.close() for env in envs])


def _vmas(case: Case) -> Contender:
    if case.task != "mpe2/simple_spread_v3":
        raise Unavailable(f"VMAS is measured with simple_spread, not with {case.task}")
    import vmas

    env = vmas.make_env("simple_spread", case.num_envs, continuous_actions=False, max_steps=25, seed=0)
    actions = [[env.get_random_action(agent) for agent in env.agents] for _ in range(STOCK)]

    def run(calls: int) -> None:
        for i in range(calls):
            *_, done, _ = env.step(actions[i % STOCK])
            if done.any():  # all end together, of their time limit
                env.reset()

    return Contender(run, case.num_envs, lambda: None)


CONTENDERS: dict[str, tuple[Callable[[Case], Contender], str]] = {
    POOL: (_pool, "PoolEnv.step_and_maybe_reset"),
    "raw": (_raw, "the task's C++ envs on plain threads: no pool, no Python, outputs thrown away"),
    "envpool": (_envpool, "EnvPool's step"),
    "gymnasium": (_gymnasium, "Gymnasium's env, or a loop over them (SyncVectorEnv)"),
    "gymnasium-tensors": (_gymnasium_tensors, "Gymnasium's env with tensors in and out, one env"),
    "gymnasium-async": (_gymnasium_async, "a process for each of Gymnasium's envs (AsyncVectorEnv)"),
    "torchrl": (_torchrl, "TorchRL's env around the reference, or a process for each (ParallelEnv)"),
    "workers": (_workers, "PoolEnv with TorchRL's envs in as many processes as there are threads"),
    "ale": (_ale, "ale-py's AtariVectorEnv"),
    "pettingzoo": (_pettingzoo, "a loop over parallel envs of mpe2 or PettingZoo"),
    "vmas": (_vmas, "VMAS's simple_spread: all envs in torch, on one thread"),
}


def make_all(names: Sequence[str], case: Case) -> tuple[dict[str, Contender], dict[str, str]]:
    """The contenders that can be made, and why the others cannot."""
    contenders, missing = {}, {}
    for name in dict.fromkeys(names):
        try:
            contenders[name] = CONTENDERS[name][0](case)
        except (Unavailable, ImportError, gymnasium.error.Error) as why:
            missing[name] = str(why)
    return contenders, missing
