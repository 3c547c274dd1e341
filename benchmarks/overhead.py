"""What a vector step costs besides the simulators: Python, TorchRL's transforms, and the native info keys."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.envs import EnvBase, RewardSum, StepCounter, TransformedEnv

from torchrl_pool import PoolEnv
from torchrl_pool._bench.alternate import alternate
from torchrl_pool._bench.document import save
from torchrl_pool._bench.steppers import Stepper, one_torch_thread
from torchrl_pool._tables import print_table

NATIVE = ("step_count", "episode_reward", "is_init")


class TrivialEnv(EnvBase):
    """The cheapest env that TorchRL's machinery can drive: PoolEnv's specs, fresh tensors, nothing behind.

    The first env's episode ends at every step.
    """

    def __init__(self, like: PoolEnv) -> None:
        super().__init__(device=like.device, batch_size=like.batch_size)
        self.observation_spec = like.observation_spec.clone()
        self.action_spec = like.action_spec.clone()
        self.reward_spec = like.reward_spec.clone()
        self.done_spec = like.done_spec.clone()

    def _tensordict(self, **extra: torch.Tensor) -> TensorDict:
        n = self.batch_size[0]
        flags = {key: torch.zeros(n, 1, dtype=torch.bool) for key in ("terminated", "truncated", "done")}
        values = {"observation": torch.zeros(n, 4), **flags, **extra}
        return TensorDict._new_unsafe(values, batch_size=self.batch_size, device=self.device)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        done = torch.zeros(self.batch_size[0], 1, dtype=torch.bool)
        done[0] = True
        return self._tensordict(reward=torch.zeros(self.batch_size[0], 1), done=done, terminated=done.clone())

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        return self._tensordict()

    def _set_seed(self, seed: int | None) -> None:
        pass


def python_cost(num_envs: int) -> tuple[float, float]:
    """Seconds per call of step_and_maybe_reset, and of the executor's part of it alone."""
    env = PoolEnv("MountainCar-v0", num_envs, num_threads=1, max_episode_steps=None)
    pool, allocator = env._start(), env._allocator
    whole = Stepper(env)
    (_, out), (_, root) = kept = allocator.for_step(), allocator.for_root()
    actions = [[action.data_ptr()] for action in whole.actions]

    def executor(calls: int) -> None:
        for i in range(calls):
            pool.step_and_reset(actions[i % len(actions)], out, root, kept)

    times = alternate({"whole": whole, "executor": executor})
    return times["whole"].median, times["executor"].median


def transformed(env: EnvBase) -> EnvBase:
    return TransformedEnv(env, StepCounter()).append_transform(RewardSum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num-envs", type=int, nargs="+", default=[8, 64, 1024])
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    results: dict[str, Any] = {}

    rows = []
    for n in parsed.num_envs:
        whole, executor = python_cost(n)
        rows.append(
            [str(n), f"{whole * 1e6:.1f}", f"{executor * 1e6:.1f}", f"{(whole - executor) * 1e6:.1f}"]
        )
        results[f"python {n}"] = {"whole": whole, "executor": executor}
    print("µs per vector step (MountainCar, no episode ends)")
    print_table(["N", "whole", "executor", "Python"], rows, numbers=4)

    rows = []
    for n in parsed.num_envs:
        makers: dict[str, Callable[[], EnvBase]] = {
            "trivial env": lambda n=n: transformed(TrivialEnv(PoolEnv("CartPole-v1", n))),
            "pool": lambda n=n: transformed(PoolEnv("CartPole-v1", n, num_threads=2)),
        }
        times = alternate({name: Stepper(make()) for name, make in makers.items()}, round_seconds=0.1)
        difference = times["pool"].median - times["trivial env"].median
        rows.append([str(n), *(f"{s.median * 1e6:.0f}" for s in times.values()), f"{difference * 1e6:.0f}"])
        results[f"transforms {n}"] = times
    print("\nµs per vector step under TransformedEnv(StepCounter, RewardSum), some env resetting at each")
    print_table(["N", "trivial env", "pool", "added"], rows, numbers=4)

    rows = []
    for n in parsed.num_envs:
        times = alternate(
            {
                "none": Stepper(PoolEnv("CartPole-v1", n, num_threads=2)),
                "native": Stepper(PoolEnv("CartPole-v1", n, num_threads=2, info_keys=NATIVE)),
                "transforms": Stepper(transformed(PoolEnv("CartPole-v1", n, num_threads=2))),
            }
        )
        none, native, under = (s.median for s in times.values())
        rows.append([str(n), *(f"{s * 1e6:.1f}" for s in (none, native, under)), f"{none / native:.2f}"])
        results[f"native {n}"] = times
    print("\nµs per vector step without counters, with native info keys, and with TorchRL's transforms")
    print_table(["N", "none", "native", "transforms", "none / native"], rows, numbers=5)
    save(parsed.json, results)


if __name__ == "__main__":
    main()
