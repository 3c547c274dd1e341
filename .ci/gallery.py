"""Draws a picture of each task of a family, as ``PoolEnv.render`` shows it, into one image.

Of several versions of a task the newest is drawn. Usage: ``python .ci/gallery.py mujoco``.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from torchrl_pool import PoolEnv, list_tasks, task_info


def newest_versions(tasks: list[str]) -> list[str]:
    """Of ids that differ in the number after ``-v`` alone, the one with the highest."""
    newest: dict[str, tuple[int, str]] = {}
    for task in tasks:
        name, _, version = task.rpartition("-v")
        newest[name] = max(newest.get(name, (-1, "")), (int(version), task))
    return sorted(task for _, task in newest.values())


def picture(task: str, steps: int) -> torch.Tensor:
    """A task after some random steps from its seventh seed: uint8 ``[H, W, 3]``."""
    torch.manual_seed(0)
    env = PoolEnv(task, 1, seed=7)
    root = env.reset()
    for _ in range(steps):
        root = env.step_and_maybe_reset(env.rand_action(root))[1]
    frame = env.render()[0]
    env.close()
    return frame


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", choices=sorted({task_info(task).family for task in list_tasks()}))
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="which of them (default: all)")
    parser.add_argument("--steps", type=int, default=8, help="random steps before the picture (default: 8)")
    parser.add_argument("--output", type=Path, help="image file (default: FAMILY.png)")
    parsed = parser.parse_args()
    tasks = parsed.tasks or newest_versions(list_tasks(parsed.family))
    columns = min(4, len(tasks))
    rows = math.ceil(len(tasks) / columns)
    figure, axes = plt.subplots(rows, columns, figsize=(2 * columns, 2.2 * rows), squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for axis, task in zip(axes.flat, tasks, strict=False):
        axis.imshow(picture(task, parsed.steps).numpy())
        axis.set_title(task, fontsize=8)
    figure.tight_layout()
    output = parsed.output or Path(f"{parsed.family}.png")
    figure.savefig(output, dpi=100)
    print(f"wrote {output}: {len(tasks)} tasks")


if __name__ == "__main__":
    main()
