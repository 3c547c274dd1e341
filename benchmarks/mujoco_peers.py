"""MuJoCo tasks: ``PoolEnv.step_and_maybe_reset`` against the bare simulator, EnvPool and ParallelEnv.

All of one table are measured in one run, in turn. The bare simulator is a C++ loop without a pool, on as many
threads, which the system's compiler builds against the ``mujoco`` package. EnvPool needs a virtual
environment of its own: give its interpreter with ``--envpool-python``.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from alternate import alternate, save
from peer_process import PEERS, PeerProcess, envpool
from stepping import Stepper, one_torch_thread, print_table
from torchrl.envs import GymEnv, ParallelEnv

from torchrl_pool import PoolEnv

# Model, frame skip, and the range of the third coordinate in which an episode goes on.
BARE = {
    "HalfCheetah-v5": ("half_cheetah.xml", 5, -1e9, 1e9),
    "Ant-v5": ("ant.xml", 5, 0.2, 1.0),
    "Hopper-v5": ("hopper.xml", 4, -0.2, 0.2),
    "Walker2d-v5": ("walker2d_v5.xml", 4, -1.0, 1.0),
    "Humanoid-v5": ("humanoid.xml", 5, 1.0, 2.0),
}


def folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def bare(task: str, num_envs: int, num_threads: int, build: Path) -> PeerProcess:
    program = build / "bare_mujoco"
    if not program.exists():
        mujoco = folder("mujoco")
        compile_flags = ["-O3", "-std=c++20", f"-I{mujoco / 'include'}", str(PEERS / "bare_mujoco.cc")]
        library = ["-o", str(program), str(mujoco / f"libmujoco.so.{version('mujoco')}"), "-pthread"]
        subprocess.run(["c++", *compile_flags, *library, f"-Wl,-rpath,{mujoco}"], check=True)
    model, *numbers = BARE[task]
    assets = folder("gymnasium") / "envs" / "mujoco" / "assets"
    return PeerProcess([str(program), str(assets / model), *map(str, [*numbers, num_envs, num_threads])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envpool-python")
    parser.add_argument("--task", nargs="+", default=["HalfCheetah-v5", "Ant-v5"], choices=sorted(BARE))
    parser.add_argument("--num-envs", type=int, nargs="+", default=[64, 8])
    parser.add_argument("--num-threads", type=int, default=2)
    parser.add_argument("--parallel-env", type=int, default=8, help="the largest N for ParallelEnv")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    rows, results = [], []
    with tempfile.TemporaryDirectory() as build:
        for task in parsed.task:
            for n in parsed.num_envs:
                pool = PoolEnv(task, n, num_threads=parsed.num_threads)
                simulator = bare(task, n, parsed.num_threads, Path(build))
                contenders: dict[str, Callable[[int], None]] = {
                    "torchrl_pool": Stepper(pool),
                    "bare simulator": simulator.request,
                }
                if parsed.envpool_python:
                    peer = envpool(parsed.envpool_python)
                    contenders["envpool"] = lambda calls, peer=peer, task=task, n=n: peer.request(
                        task, n, parsed.num_threads, calls
                    )
                if n <= parsed.parallel_env:
                    parallel = ParallelEnv(n, lambda task=task: GymEnv(task))
                    contenders["ParallelEnv"] = Stepper(parallel)
                times = alternate(contenders, round_seconds=0.2, rounds=parsed.rounds)
                ratios = {name: times[name].median / times["torchrl_pool"].median for name in contenders}
                for name, seconds in times.items():
                    rows.append([task, n, name, f"{n / seconds.median:,.0f}", f"{ratios[name]:.2f}"])
                results.append({"task": task, "num_envs": n, "seconds_per_call": times, "ratios": ratios})
                pool.close()
                if n <= parsed.parallel_env:
                    parallel.close()
    print_table(["task", "N", "", "steps/s", "torchrl_pool is faster by"], rows)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
