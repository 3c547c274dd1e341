"""Steps per second by number of envs and threads, beside the same C++ envs alone and other libraries.

Actions are random. All contenders take turns in one run, so that their ratios hold on a noisy machine too.
README and docs show the saved results, by ``.ci/speed_tables.py``. EnvPool's paper (Weng et al. 2022) has the
same in figure 3, and for one env in table 2. The other benchmarks measure with ``alternate`` and write with
``save``.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import torch
from tensordict import TensorDictBase
from torchrl.envs import DMControlEnv, EnvBase, GymWrapper, ParallelEnv

from torchrl_pool import PoolEnv, _core, task_info
from torchrl_pool._plugins.building import compile_plugin
from torchrl_pool._plugins.names import envpool_id, suite_names
from torchrl_pool._tables import print_table

TASKS = ["CartPole-v1", "HalfCheetah-v5", "Ant-v5", "Humanoid-v5", "ALE/Pong-v5", "ALE/Breakout-v5"]
POOL = "torchrl_pool"
PEERS = Path(__file__).parent / "peers"
STOCK = 64  # batches of actions, drawn beforehand and taken in turn
ENVPOOL_PYTHON = "TORCHRL_POOL_ENVPOOL_PYTHON"  # environment variable
PACKAGES = ("torchrl_pool", "torch", "torchrl", "tensordict", "numpy", "gymnasium", "mujoco", "ale-py")

# ---- measuring ----


@dataclass(frozen=True)
class Seconds:
    """Seconds per call: the median over rounds and the quartiles around it."""

    median: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median."""
        return (self.high - self.low) / 2 / self.median


def summary(values: Sequence[float]) -> Seconds:
    """The median and the quartiles of at least two measurements."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Seconds(median, low, high)


def alternate(
    contenders: Mapping[str, Callable[[int], Any]], round_seconds: float = 0.05, rounds: int = 30
) -> dict[str, Seconds]:
    """Times contenders in turn, in many short rounds.

    Args:
        contenders: by name, a function that makes a given number of calls.
        round_seconds: about how long one contender runs before the next has its turn.
        rounds: turns of each; at least 2.
    """
    calls = {name: _calls_in(run, round_seconds) for name, run in contenders.items()}
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.perf_counter()
            run(calls[name])
            samples[name].append((time.perf_counter() - start) / calls[name])
    return {name: summary(values) for name, values in samples.items()}


def _calls_in(run: Callable[[int], Any], seconds: float) -> int:
    """How many calls take about so long. Finding out warms the contender up."""
    run(1)
    calls = 1
    while True:
        start = time.perf_counter()
        run(calls)
        elapsed = time.perf_counter() - start
        if elapsed >= seconds / 2:
            return max(1, round(calls * seconds / elapsed))
        calls *= 4


def one_torch_thread() -> None:
    """The benchmarks measure envs, not torch's own thread pool."""
    torch.set_num_threads(1)


# ---- results ----


def document(results: Any) -> dict[str, Any]:
    """The results and what they depend on, ready for JSON (but for dataclasses)."""
    return {
        "script": Path(sys.argv[0]).name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": {"python": platform.python_version(), **_versions()},
        "results": results,
    }


def save(path: Path | None, results: Any) -> None:
    """Writes ``document(results)``; with no path, does nothing."""
    if path is not None:
        path.write_text(as_json(document(results)))


def as_json(value: Mapping[str, Any]) -> str:
    """JSON with a line for each key, and for each of a list of results."""
    lines = []
    for key, item in value.items():
        text = json.dumps(item, default=asdict)
        if isinstance(item, list):
            text = "[\n  " + ",\n  ".join(json.dumps(row, default=asdict) for row in item) + "\n]"
        lines.append(f"{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def machine() -> dict[str, Any]:
    """Processor, memory and system; and the load, which tells how many others wanted the processors."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    processors = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": processors[0] if processors else platform.processor(),
        "cpus": os.cpu_count(),
        "usable_cpus": _core.available_cpus(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def machine_line() -> str:
    """The machine in a few words, for tables."""
    facts = machine()
    return f"{facts['processor']}, {facts['usable_cpus']} processors, {facts['memory_gib']:.0f} GiB"


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # another library that is not installed
            continue
    return found


# ---- what steps ----


class Unavailable(Exception):
    """Why something cannot be measured, besides a package that is missing or an env that Gymnasium lacks."""


@dataclass(frozen=True)
class Case:
    """What a contender is made for.

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

    @property
    def half(self) -> int:
        """How many envs asynchronous contenders receive at a time."""
        if self.num_envs % 2:
            raise Unavailable("half of the envs at a time: needs an even number of them")
        return self.num_envs // 2


class Contender:
    """Something that steps envs.

    Args:
        run: makes a given number of calls.
        envs_per_call: env steps that one call makes.
        close: frees what it holds.
        each: makes a given number of calls and returns the seconds of each.
    """

    def __init__(
        self,
        run: Callable[[int], Any],
        envs_per_call: int,
        close: Callable[[], Any] = lambda: None,
        each: Callable[[int], list[float]] | None = None,
    ) -> None:
        self.run, self.envs_per_call, self.close = run, envs_per_call, close
        self.each = each or self._each

    def _each(self, calls: int) -> list[float]:
        times = [time.perf_counter()]
        for _ in range(calls):
            self.run(1)
            times.append(time.perf_counter())
        return [after - before for before, after in itertools.pairwise(times)]


class Stepper:
    """Calls ``step_and_maybe_reset``, as a collector whose policy costs nothing."""

    def __init__(self, env: EnvBase) -> None:
        self.env = env
        self.root: TensorDictBase = env.reset()
        self.actions = [env.rand_action()["action"] for _ in range(STOCK)]
        self.position = 0

    def __call__(self, calls: int) -> None:
        env, root, actions = self.env, self.root, self.actions
        for i in range(self.position, self.position + calls):
            # The cheapest way that tensordict has: what the policy does is not measured.
            root._set_str("action", actions[i % STOCK], inplace=False, validated=True)
            _, root = env.step_and_maybe_reset(root)
        self.root = root
        self.position += calls


class AsyncStepper:
    """Receives a batch of the envs in flight and sends it again.

    Between two runs nothing is in flight: it would take the processors from the contender whose turn it is.
    """

    def __init__(self, env: PoolEnv, batch_size: int) -> None:
        self.env, self.batch_size = env, batch_size
        self.actions = [env.rand_action()["action"][:batch_size].clone() for _ in range(STOCK)]
        env.async_reset_send()
        num_batches = env.num_envs // batch_size
        self.idle = [env.async_reset_recv(batch_size, max_get=batch_size) for _ in range(num_batches)]

    def __call__(self, calls: int) -> None:
        env, idle, in_flight = self.env, self.idle, 0
        for i in range(calls):
            if idle:
                root = idle.pop()
                in_flight += 1
            else:
                root = self._receive()
            root._set_str("action", self.actions[i % STOCK], inplace=False, validated=True)
            env.async_step_and_maybe_reset_send(root)
        idle += [self._receive() for _ in range(in_flight)]

    def _receive(self) -> TensorDictBase:
        size = self.batch_size
        root: TensorDictBase = self.env.async_step_and_maybe_reset_recv(size, max_get=size)[1]
        return root


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


# ---- contenders ----


def _pool(case: Case) -> Contender:
    return _torchrl_stepper(PoolEnv(case.task, case.num_envs, num_threads=case.num_threads), case.num_envs)


def _pool_async(case: Case) -> Contender:
    env = PoolEnv(case.task, case.num_envs, num_threads=case.num_threads)
    return Contender(AsyncStepper(env, case.half), case.half, env.close)


def _torchrl_stepper(env: EnvBase, num_envs: int) -> Contender:
    return Contender(Stepper(env), num_envs, partial(env.close, raise_if_closed=False))


def _raw(case: Case) -> Contender:
    library = ctypes.CDLL(str(compile_plugin(PEERS / "bare_loop.cc", flags=["-pthread", "-ldl"])))
    library.bare_loop_open.restype = ctypes.c_void_p
    library.bare_loop_run.restype = ctypes.c_bool
    rows = PoolEnv(case.task, 1024, categorical_action_encoding=True).rand_action()["action"].contiguous()
    plugin, message = task_info(case.task).plugin_path, ctypes.create_string_buffer(1024)
    loop = ctypes.c_void_p(
        library.bare_loop_open(plugin.encode(), case.task.encode(), case.num_envs, case.num_threads, message)
    )
    if not loop:
        raise RuntimeError(message.value.decode())

    def run(calls: int) -> None:
        actions, row_bytes = ctypes.c_void_p(rows.data_ptr()), ctypes.c_size_t(rows[0].nbytes)
        steps, num_rows = ctypes.c_int64(calls), ctypes.c_int64(len(rows))
        if not library.bare_loop_run(loop, steps, actions, row_bytes, num_rows, message):
            raise RuntimeError(message.value.decode())

    return Contender(run, case.num_envs, partial(library.bare_loop_close, loop))


def _envpool(case: Case, *, is_async: bool = False) -> Contender:
    batch_size = case.half if is_async else case.num_envs
    python = case.envpool_python or os.environ.get(ENVPOOL_PYTHON)
    if python is None and find_spec("envpool") is None:
        raise Unavailable(
            "EnvPool is not installed: pip install envpool, here or in an environment of its own, whose "
            "interpreter --envpool-python then names"
        )
    # -W: Gymnasium warns about EnvPool's spaces.
    command = [python or sys.executable, "-Wignore", str(PEERS / "envpool_steps.py"), envpool_id(case.task)]
    try:
        peer = PeerProcess([*command, *map(str, (case.num_envs, batch_size, case.num_threads))])
        answer = peer.wait().strip()
    except FileNotFoundError:
        raise Unavailable(f"there is no interpreter {command[0]}") from None
    except RuntimeError:
        answer = f"it cannot be started with {command[0]}; see its message above"
    if answer != "ready":
        peer.close()
        raise Unavailable(answer)
    if is_async:
        return Contender(peer.request, batch_size, peer.close)

    def each(calls: int) -> list[float]:  # timed there, without the pipe
        return [float(word) for word in peer.request("each", calls).split()]

    return Contender(peer.request, batch_size, peer.close, each)


def _gymnasium(case: Case) -> Contender:
    if case.num_envs == 1:
        return _one_gymnasium_env(case.task, lambda action: action, lambda *_: None)
    return _vector(
        gymnasium.vector.SyncVectorEnv([partial(gymnasium_env, case.task)] * case.num_envs), case.num_envs
    )


def _gymnasium_async(case: Case) -> Contender:
    _check_processes(case)
    makers = [partial(gymnasium_env, case.task)] * case.num_envs
    return _vector(gymnasium.vector.AsyncVectorEnv(makers, context="fork"), case.num_envs)


def _gymnasium_tensors(case: Case) -> Contender:
    if case.num_envs > 1:
        raise Unavailable("only with one env")

    def to_env(action: torch.Tensor) -> Any:
        return action.item() if action.ndim == 0 else action.numpy()

    def from_env(observation: Any, reward: float = 0.0, *flags: bool) -> None:
        torch.as_tensor(observation)
        torch.tensor(float(reward))
        for flag in (*flags, any(flags)):
            torch.tensor(flag)

    return _one_gymnasium_env(case.task, to_env, from_env, torch.as_tensor)


def _one_gymnasium_env(
    task: str,
    to_env: Callable[[Any], Any],
    from_env: Callable[..., None],
    stored: Callable[[Any], Any] = lambda action: action,
) -> Contender:
    env = gymnasium_env(task)
    env.reset(seed=0)
    actions = [stored(env.action_space.sample()) for _ in range(STOCK)]

    def run(calls: int) -> None:
        for i in range(calls):
            observation, reward, terminated, truncated, _ = env.step(to_env(actions[i % STOCK]))
            from_env(observation, reward, terminated, truncated)
            if terminated or truncated:
                from_env(env.reset()[0])

    return Contender(run, 1, env.close)


def _vector(envs: Any, num_envs: int) -> Contender:
    envs.reset(seed=0)
    actions = [envs.action_space.sample() for _ in range(STOCK)]

    def run(calls: int) -> None:
        for i in range(calls):
            envs.step(actions[i % STOCK])

    return Contender(run, num_envs, envs.close)


def _torchrl(case: Case) -> Contender:
    if case.num_envs == 1:
        return _torchrl_stepper(torchrl_env(case.task), 1)
    _check_processes(case)
    make = partial(torchrl_env, case.task)
    make().close()  # raises here, and not in a process, why there is none
    return _torchrl_stepper(ParallelEnv(case.num_envs, make, mp_start_method="fork"), case.num_envs)


def _ale(case: Case) -> Contender:
    if task_info(case.task).family != "atari":
        raise Unavailable(f"ale-py plays Atari games, not {case.task}")
    import ale_py
    from ale_py.vector_env import AtariVectorEnv

    gymnasium.register_envs(ale_py)
    game = gymnasium.spec(case.task).kwargs["game"]
    return _vector(AtariVectorEnv(game, case.num_envs, num_threads=case.num_threads), case.num_envs)


def _check_processes(case: Case) -> None:
    if case.num_envs > case.max_processes:
        raise Unavailable(
            f"a process for each of {case.num_envs} envs; --max-processes is {case.max_processes}"
        )


CONTENDERS: dict[str, tuple[Callable[[Case], Contender], str]] = {
    POOL: (_pool, "PoolEnv.step_and_maybe_reset"),
    f"{POOL}-async": (_pool_async, "the same envs in flight: half of them are received at a time"),
    "raw": (_raw, "the task's C++ envs on plain threads: no pool, no Python, outputs thrown away"),
    "envpool": (_envpool, "EnvPool's step"),
    "envpool-async": (partial(_envpool, is_async=True), "its recv and send: half of the envs at a time"),
    "gymnasium": (_gymnasium, "Gymnasium's env, or a loop over them (SyncVectorEnv)"),
    "gymnasium-tensors": (_gymnasium_tensors, "Gymnasium's env with tensors in and out, one env"),
    "gymnasium-async": (_gymnasium_async, "a process for each of Gymnasium's envs (AsyncVectorEnv)"),
    "torchrl": (_torchrl, "TorchRL's GymEnv or DMControlEnv, or a process for each (ParallelEnv)"),
    "ale": (_ale, "ale-py's AtariVectorEnv"),
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


# ---- the envs that tasks reproduce ----


def gymnasium_env(task: str) -> Any:
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


def torchrl_env(task: str) -> EnvBase:
    """TorchRL's env around the env that a task reproduces."""
    if task_info(task).family == "dm_control":
        return DMControlEnv(*suite_names(task))
    return GymWrapper(gymnasium_env(task))


# ---- the program ----


def measure(case: Case, names: Sequence[str], rounds: int, round_seconds: float) -> dict[str, Any]:
    """Seconds per step of one env of the pool and of the named contenders, ready for JSON."""
    contenders, missing = make_all([POOL, *names], case)
    try:
        runs = {name: contender.run for name, contender in contenders.items()}
        times = alternate(runs, round_seconds, rounds)
    finally:
        for contender in contenders.values():
            contender.close()
    seconds = {}
    for name, time_of_call in times.items():
        envs = contenders[name].envs_per_call
        seconds[name] = Seconds(*(value / envs for value in asdict(time_of_call).values()))
    return {
        "task": case.task,
        "num_envs": case.num_envs,
        "num_threads": case.num_threads,
        "steps_per_second": {name: round(1 / s.median, 1) for name, s in seconds.items()},
        "pool_is_faster_by": {name: round(s.median / seconds[POOL].median, 3) for name, s in seconds.items()},
        "seconds_per_step": seconds,
        "missing": missing,
    }


def print_results(results: Sequence[Mapping[str, Any]]) -> None:
    """A row for each contender of each case, then what the names mean, and what was left out and why."""
    rows = []
    for row in results:
        first = [row["task"], str(row["num_envs"]), str(row["num_threads"])]
        for name, seconds in row["seconds_per_step"].items():
            faster = "" if name == POOL else f"{row['pool_is_faster_by'][name]:.3g}"
            rows.append([*first, name, f"{1 / seconds.median:,.0f}", f"±{seconds.spread:.0%}", faster])
            first = ["", "", ""]
    print(f"{machine_line()}\n")
    header = ["task", "envs", "threads", "", "steps/s", "spread", f"{POOL} is faster by"]
    print_table(header, rows, numbers=3)
    print("\nMedians over rounds in which all take turns; spread: half the distance between the quartiles.")
    measured = dict.fromkeys(name for row in results for name in row["seconds_per_step"])
    for name in measured:
        print(f"  {name}: {CONTENDERS[name][1]}")
    for name, why in dict.fromkeys(item for row in results for item in row["missing"].items()):
        print(f"  not measured: {name}: {why}")


def main() -> None:
    others = [name for name in CONTENDERS if name != POOL]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", nargs="+", default=TASKS)
    parser.add_argument("--num-envs", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--num-threads", type=int, nargs="+", default=[_core.available_cpus()])
    parser.add_argument("--against", nargs="*", choices=others, default=others, help="default: all")
    parser.add_argument("--envpool-python", help=f"has EnvPool; default: ${ENVPOOL_PYTHON}, else this one")
    parser.add_argument("--max-processes", type=int, default=Case.max_processes, help="for one contender")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each")
    parser.add_argument("--round-seconds", type=float, default=0.1)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    results = []
    for task, envs, threads in itertools.product(parsed.task, parsed.num_envs, parsed.num_threads):
        print(f"measuring {task}, {envs} envs, {threads} threads", file=sys.stderr)
        case = Case(task, envs, threads, parsed.envpool_python, parsed.max_processes)
        results.append(measure(case, parsed.against, parsed.rounds, parsed.round_seconds))
    print_results(results)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
