"""What it costs that a pool's outputs go to a GPU: steps with ``device="cuda"`` beside steps with ``"cpu"``.

Both sides take turns, with actions that lie where the outputs are. Beside them stands the bandwidth at which
a batch's rows go up, and that of one plain copy of as many pinned bytes. Without a GPU the program says so.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median

import torch
from throughput import alternate, machine_line, save

from torchrl_pool import PoolCollector, PoolEnv
from torchrl_pool._tables import print_table


class Steps:
    """Steps of all envs, with one action for all of them.

    Args:
        task: the envs' task.
        num_envs: how many they are.
        device: where outputs go and the action lies.
    """

    def __init__(self, task: str, num_envs: int, device: str) -> None:
        self._env = PoolEnv(task, num_envs, seed=0, device=device)
        self._root = self._env.rand_action(self._env.reset())
        self._action = self._root["action"]

    def __call__(self, calls: int) -> None:
        for _ in range(calls):
            self._root["action"] = self._action
            _, self._root = self._env.step_and_maybe_reset(self._root)
        if self._action.is_cuda:
            torch.cuda.synchronize()


def plain_copy(num_bytes: int, rounds: int) -> float:
    """Bytes a second of one copy from pinned memory."""
    source = torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True)
    there = torch.empty_like(source, device="cuda", pin_memory=False)
    seconds = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        start = time.perf_counter()
        there.copy_(source, non_blocking=True)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return num_bytes / median(seconds)


def uploads(task: str, num_envs: int) -> tuple[int, float]:
    """Bytes of a step's rows, and bytes a second while they went up."""
    env = PoolEnv(task, num_envs, seed=0)
    collector = PoolCollector(env, frames_per_batch=num_envs * 32, total_frames=-1, storing_device="cuda")
    batches = iter(collector)
    for _ in range(3):
        next(batches)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        next(batches)
        torch.cuda.synchronize()
    collector.shutdown()
    assert collector._storage is not None
    num_bytes = collector._storage.by_step.num_bytes
    ups = sorted(
        (event.device_time_total for event in profile.events() if "Memcpy HtoD" in event.name), reverse=True
    )
    return num_bytes, num_bytes / (median(ups[:32]) * 1e-6)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", default=["ALE/Pong-v5:256", "HalfCheetah-v5:1024"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    print(machine_line())
    if not torch.cuda.is_available():
        print("torch finds no GPU here")
        return
    rows, documents = [], []
    for one in parsed.tasks:
        task, number = one.rsplit(":", 1)
        num_envs = int(number)
        sides = {device: Steps(task, num_envs, device) for device in ("cuda", "cpu")}
        times = alternate(sides, round_seconds=0.5, rounds=parsed.rounds)
        num_bytes, reached = uploads(task, num_envs)
        plain = plain_copy(num_bytes, 50)
        ratio = times["cuda"].median / times["cpu"].median
        rows.append(
            [
                one,
                f"{times['cpu'].median * 1e6:.0f}",
                f"{times['cuda'].median * 1e6:.0f}",
                f"{ratio:.3f}",
                f"{reached / 1e9:.1f}",
                f"{plain / 1e9:.1f}",
            ]
        )
        documents.append({"task": one, "times": times, "bytes_per_second": reached, "plain": plain})
    print_table(["", "us a step, cpu", "cuda", "times", "GB/s up", "plain copy"], rows, numbers=5)
    save(parsed.json, documents)


if __name__ == "__main__":
    main()
