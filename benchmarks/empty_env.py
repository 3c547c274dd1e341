"""What the executor and the plugin ABI add to the step of an env: an empty one, against a loop in C++."""

from __future__ import annotations

import argparse
import ctypes
import time
from pathlib import Path
from typing import Any

import torch

from torchrl_pool import PoolEnv, load_plugin
from torchrl_pool._bench.alternate import alternate
from torchrl_pool._bench.document import save
from torchrl_pool._bench.steppers import one_torch_thread
from torchrl_pool._plugins.building import compile_plugin
from torchrl_pool._tables import print_table

SOURCE = Path(__file__).with_name("empty_env.cc")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-envs", type=int, nargs="+", default=[1, 64, 1024])
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    library = compile_plugin(SOURCE)
    load_plugin(library)
    direct_loop = ctypes.CDLL(str(library)).direct_loop
    results: dict[str, Any] = {}
    rows = []
    for n in parsed.num_envs:
        env = PoolEnv("Empty-v0", n, num_threads=1, categorical_action_encoding=True)
        env.reset()
        pool, (kept, out) = env._start(), env._allocator.for_step()
        root = env._allocator.for_root()
        action = torch.randint(2, (n,))
        pointers = [ctypes.c_void_p(address) for address in (action.data_ptr(), *out)]
        columns = list(kept)
        assert columns == ["observation", "reward", "terminated", "truncated", "done"], columns

        def loop(calls: int, n: int = n, pointers: Any = pointers) -> None:
            direct_loop(ctypes.c_int64(calls), ctypes.c_int64(n), *pointers)

        def executor(
            calls: int, pool: Any = pool, out: Any = out, root: Any = root[1], a: Any = action
        ) -> None:
            actions = [a.data_ptr()]
            for _ in range(calls):
                pool.step_and_reset(actions, out, root, None)

        times = alternate({"loop": loop, "executor": executor}, clock=time.thread_time)
        direct, pooled = (seconds.median / n * 1e9 for seconds in times.values())
        rows.append([str(n), f"{direct:.2f}", f"{pooled:.2f}", f"{pooled - direct:.2f}"])
        results[f"empty env {n}"] = times
        env.close()
    print("ns of processor time per step of an env, one thread; with the executor's call from Python")
    print_table(["N", "loop in C++", "executor", "added"], rows, numbers=4)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
