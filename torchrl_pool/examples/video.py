"""Videos of episodes: played, written as mp4 or gif, sent to loggers."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDictBase
from torchrl.envs import EnvBase
from torchrl.envs.utils import ExplorationType, set_exploration_type

from torchrl_pool import PoolEnv
from torchrl_pool.examples.envs import pool_of
from torchrl_pool.examples.results import first_line


def check_video(make_env: Callable[[], EnvBase]) -> None:
    """Raises ValueError: an env cannot be drawn, or nothing can write a video."""
    if importlib.util.find_spec("imageio") is None:
        raise ValueError("--video: needs imageio: pip install torchrl_pool[examples]")
    try:
        with closing(make_env()) as env:
            env.reset()
            pool_of(env).render(0)
    except (RuntimeError, AttributeError, ImportError) as error:  # what OpenGL's libraries raise, too
        raise ValueError(f"--video: expected a task that can be drawn: {first_line(error)}") from error


@dataclass(frozen=True)
class Video:
    """Pictures of an episode.

    Args:
        pictures: ``[H, W, 3]`` each, with even numbers of rows and columns, as an mp4's colours need.
        fps: frames per second, the env's own.
        is_whole: whether the episode ends there.
    """

    pictures: list[NDArray[np.uint8]]
    fps: float
    is_whole: bool

    def save(self, path: Path) -> Path:
        """Writes an mp4, or without imageio-ffmpeg a gif; returns the file."""
        import imageio.v2 as imageio

        if importlib.util.find_spec("imageio_ffmpeg") is not None:
            path, pictures = path.with_suffix(".mp4"), cast(Any, self.pictures)
            imageio.mimsave(path, pictures, fps=self.fps, macro_block_size=2)  # 16 would stretch them
        else:
            path = path.with_suffix(".gif")
            path.write_bytes(self.as_gif())
        return path

    def as_gif(self) -> bytes:
        """An animated gif."""
        import imageio.v2 as imageio

        gif: bytes = imageio.mimsave(
            "<bytes>", cast(Any, self.pictures), format=cast(Any, "gif"), duration=1000 / self.fps, loop=0
        )
        return gif


@torch.no_grad()
def record_video(
    env: EnvBase, policy: Callable[[TensorDictBase], TensorDictBase], *, max_frames: int = 500
) -> Video:
    """Plays an episode of the first env, from its reset to its last step, with the most likely actions."""
    pool, is_whole = pool_of(env), False

    def picture() -> NDArray[np.uint8]:
        return padded_to_even(pool.render(0)[0].numpy())

    with set_exploration_type(ExplorationType.DETERMINISTIC):
        root = env.reset()
        pictures = [picture()]
        while len(pictures) < max_frames and not is_whole:
            step = env.step(policy(root))
            pictures.append(picture())  # before the reset: the last one shows the end
            is_whole = bool(step["next", "done"][0])
            root = env.maybe_reset(env.step_mdp(step))
    return Video(pictures, frame_rate(pool), is_whole)


def frame_rate(pool: PoolEnv) -> float:
    """Frames per second: ``render_fps`` of the env's metadata, or of Gymnasium's env of that id; else 30."""
    metadata: Mapping[str, Any] = {}
    task = pool.task if isinstance(pool.task, str) else None
    with suppress(TypeError):  # not a Python env
        metadata = pool.get_attr("metadata", 0)[0] if pool.has_attr("metadata", 0)[0] else {}
        task = None
    if task in gymnasium.registry:
        with closing(gymnasium.make(task, disable_env_checker=True)) as env:
            metadata = env.metadata
    return metadata.get("render_fps") or 30


def padded_to_even(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A picture ``[H, W, 3]`` with even numbers of rows and columns."""
    height, width, _ = picture.shape
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
