"""Draws the pictures of tasks that the documents show, as ``PoolEnv.render`` gives them.

``images/tasks/TASK.webp`` in a document is a picture of that task. Usage: ``python .ci/gallery.py [TASK…]``.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from torchrl_pool import PoolEnv

DOCS = Path(__file__).resolve().parent.parent / "docs"
SIDE = 240  # pixels, of the longer side
STEPS = 8  # random ones, before the picture
VIEWS: dict[str, dict[str, Any]] = {  # options where the reference's camera is far away, or within a wall
    "AntMaze_Medium-v5": {"default_camera_config": {"distance": 40, "elevation": -60}},
    "Humanoid-v5": {"default_camera_config": {"distance": 3, "lookat": [0, 0, 1], "elevation": -15}},
    "HumanoidStandup-v5": {"default_camera_config": {"distance": 3, "lookat": [0, 0, 0.4], "elevation": -15}},
    "InvertedDoublePendulum-v5": {"default_camera_config": {"distance": 2.4, "lookat": [0, 0, 0.45]}},
    "Pusher-v5": {"default_camera_config": {"distance": 2.2, "lookat": [0.3, -0.3, -0.1]}},
    "Reacher-v5": {"default_camera_config": {"distance": 0.75, "lookat": [0, 0, 0], "elevation": -60}},
    "dm_control/quadruped-run-v0": {"camera_id": 2},
}


def shown_tasks() -> set[str]:
    """Those that a document shows."""
    texts = (page.read_text() for page in DOCS.rglob("*.md"))
    return {task for text in texts for task in re.findall(r"images/tasks/(\S+)\.webp", text)}


def picture(task: str) -> Image.Image:
    """A task after some random steps from its seventh seed."""
    torch.manual_seed(0)
    env = PoolEnv(task, 1, seed=7, **VIEWS.get(task, {}))
    root = env.reset()
    for _ in range(STEPS):
        root = env.step_and_maybe_reset(env.rand_action(root))[1]
    image = Image.fromarray(env.render()[0].numpy())
    env.close()
    image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    return image


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="which of them (default: all)")
    for task in parser.parse_args().tasks or sorted(shown_tasks()):
        path = DOCS / "images" / "tasks" / f"{task}.webp"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture(task).save(path, quality=80)


if __name__ == "__main__":
    main()
