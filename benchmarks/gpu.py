"""What it costs that a pool's outputs go to a GPU: steps with ``device="cuda"`` beside steps with ``"cpu"``.

Both sides take turns, with actions that lie where the outputs are. Beside them stands the bandwidth at which
a batch's rows go up, and that of one plain copy of as many pinned bytes. Then come collectors whose network
is on the GPU, with the envs in one group, in two and as ``"auto"`` has it, beside one with all on the CPU.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from throughput import alternate, machine_line, save

from torchrl_pool import PoolCollector, PoolEnv
from torchrl_pool._tables import print_table
from torchrl_pool.examples.networks import actor_and_critic


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


class Batches:
    """Batches of steps that a network chooses.

    Args:
        task: the envs' task.
        num_envs: how many they are.
        device: where the network and the outputs are.
        groups: of envs, see ``double_buffered`` of PoolCollector.
    """

    num_steps = 16

    def __init__(self, task: str, num_envs: int, device: str, groups: bool | str) -> None:
        floats: dict[str, Any] = {} if task.startswith("ALE/") else {"obs_dtype": torch.float32}
        env = PoolEnv(task, num_envs, seed=0, device=device, categorical_action_encoding=True, **floats)
        actor, _ = actor_and_critic(env, "256,256", "normal")
        self.collector = PoolCollector(
            env,
            actor.to(device),
            frames_per_batch=num_envs * self.num_steps,
            total_frames=-1,
            double_buffered=groups,
        )
        self._batches, self._on_gpu = iter(self.collector), device != "cpu"
        self(8)  # "auto" has decided then

    def __call__(self, calls: int) -> None:
        for _ in range(calls):
            next(self._batches)
        if self._on_gpu:
            torch.cuda.synchronize()


def compare_groups(task: str, num_envs: int, device: str, rounds: int) -> dict[str, float]:
    """Frames a second of each side."""
    sides = {
        f"{device}, one group": Batches(task, num_envs, device, False),
        "two groups": Batches(task, num_envs, device, True),
        "auto": Batches(task, num_envs, device, "auto"),
        "cpu, one group": Batches(task, num_envs, "cpu", False),
    }
    times = alternate(sides, round_seconds=0.5, rounds=rounds)
    for side in sides.values():
        side.collector.shutdown()
    return {name: num_envs * Batches.num_steps / one.median for name, one in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", help="cpu: to see that the program runs")
    parser.add_argument("--tasks", nargs="+", default=["ALE/Pong-v5:256", "HalfCheetah-v5:1024"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    device, rounds = parsed.device, parsed.rounds
    print(machine_line())
    rows, groups, documents = [], [], []
    for one in parsed.tasks:
        task, number = one.rsplit(":", 1)
        num_envs = int(number)
        sides = {"cpu": Steps(task, num_envs, "cpu"), "there": Steps(task, num_envs, device)}
        times = alternate(sides, round_seconds=0.5, rounds=rounds)
        bandwidth = {}
        if device != "cpu":
            num_bytes, reached = uploads(task, num_envs)
            bandwidth = {"up": reached / 1e9, "plain copy": plain_copy(num_bytes, 50) / 1e9}
        seconds = [times["cpu"].median, times["there"].median]
        rates = compare_groups(task, num_envs, device, rounds)
        rows.append(
            [
                *(one, *(f"{value * 1e6:.0f}" for value in seconds), f"{seconds[1] / seconds[0]:.3f}"),
                *(f"{value:.1f}" for value in bandwidth.values()),
            ]
        )
        groups.append([one, *(f"{rate:,.0f}" for rate in rates.values())])
        documents.append({"task": one, "times": times, "gigabytes_per_second": bandwidth, "frames": rates})
    print_table(
        ["", "us a step, cpu", device, "times", *(f"GB/s {name}" for name in bandwidth)], rows, numbers=5
    )
    print("\nframes/s of collectors")
    print_table(["", *rates], groups, numbers=4)
    save(parsed.json, documents)


if __name__ == "__main__":
    main()
