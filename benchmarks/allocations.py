"""What one vector step allocates and copies, counted: every tensor operation and every call of Python.

A dispatch mode of torch sees each operation with its tensors: an output whose memory no input has is an
allocation, and copies are the operations that exist to copy; the pool's own tensors, which come by DLPack and
not by an operation, are counted where they are made. A profile function of Python counts calls. What the
executor itself allocates is counted by ``tests/test_instruction_counts.py``: nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torchrl.collectors import Collector
from torchrl.envs import EnvBase, SerialEnv

import torchrl_pool
from torchrl_pool import PoolEnv, _core
from torchrl_pool._bench.contenders import torchrl_env
from torchrl_pool._bench.document import save
from torchrl_pool._bench.steppers import Stepper, one_torch_thread
from torchrl_pool._env.buffers import Batch
from torchrl_pool._tables import print_table

_COPIES = ("copy_", "_to_copy", "clone", "cat", "stack", "index", "where", "index_put_")


class Count(TorchDispatchMode):
    """Counts allocations and copies of tensors, and their bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        inputs = {_memory(t) for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        outputs = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor)]
        self.counts["operations"] += 1
        for tensor in outputs:
            if _memory(tensor) not in inputs:
                self.note(tensor)
        if func._schema.name.removeprefix("aten::") in _COPIES:
            self.counts["copies"] += 1
            self.counts["bytes copied"] += sum(tensor.nbytes for tensor in outputs)
        return out

    def note(self, tensor: torch.Tensor) -> None:
        """Counts a tensor that has been made."""
        self.counts["allocations"] += 1
        self.counts["bytes allocated"] += tensor.untyped_storage().nbytes()

    def note_all(self, batch: Batch) -> Batch:
        for tensor in batch[0].values():
            self.note(tensor)
        return batch


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def python_calls(run: Callable[[], object]) -> int:
    """Calls of functions, Python's and C's, that a run makes on this thread."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


def count(run: Callable[[], object], steps: int) -> dict[str, float]:
    """Per step, of a run of so many steps that has warmed up."""
    calls = python_calls(run) / steps
    make, counter = _core.TensorMemory.make, Count()
    with patch.object(_core.TensorMemory, "make", lambda memory: counter.note_all(make(memory))), counter:
        run()
    return {"calls": calls, **{name: number / steps for name, number in counter.counts.items()}}


def collecting(make: type[Collector], env: EnvBase, steps: int) -> Callable[[], object]:
    """A batch of a collector with random actions."""
    collector = make(env, None, frames_per_batch=env.numel() * steps, total_frames=-1)
    batches = iter(collector)
    next(batches)
    return partial(next, batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="HalfCheetah-v5")
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--json", type=Path)
    parsed = parser.parse_args()
    one_torch_thread()
    task, n, steps = parsed.task, parsed.num_envs, parsed.steps

    def stepping(env: EnvBase) -> Callable[[], object]:
        stepper = Stepper(env)
        stepper(20)
        return lambda: stepper(steps)

    serial = partial(SerialEnv, n, partial(torchrl_env, task))
    runs = {
        "step_and_maybe_reset, SerialEnv of GymEnv": stepping(serial()),
        "step_and_maybe_reset, PoolEnv": stepping(PoolEnv(task, n)),
        "Collector, SerialEnv of GymEnv": collecting(Collector, serial(), steps),
        "Collector, PoolEnv": collecting(Collector, PoolEnv(task, n), steps),
    }
    if hasattr(torchrl_pool, "PoolCollector"):
        runs["PoolCollector, PoolEnv"] = collecting(torchrl_pool.PoolCollector, PoolEnv(task, n), steps)
    results = {name: count(run, steps) for name, run in runs.items()}
    columns = ("calls", "operations", "allocations", "bytes allocated", "copies", "bytes copied")
    print(f"{task}, {n} envs: per step of all envs, random actions")
    header = ["", "calls of functions", *columns[1:]]
    rows = [[name, *(f"{counts.get(c, 0):,.1f}" for c in columns)] for name, counts in results.items()]
    print_table(header, rows, numbers=len(columns))
    save(parsed.json, {"task": task, "num_envs": n, "steps": steps, "per_step": results})


if __name__ == "__main__":
    main()
