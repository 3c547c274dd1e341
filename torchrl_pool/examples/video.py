"""Videos of episodes, and TorchRL's loggers, which get them with a training's figures."""

from __future__ import annotations

import importlib.util
import os
import shutil
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
from torchrl.record.loggers import CSVLogger, Logger, TensorboardLogger, WandbLogger, get_logger
from torchrl.record.loggers.mlflow import MLFlowLogger
from torchrl.record.loggers.trackio import TrackioLogger

from torchrl_pool import PoolEnv
from torchrl_pool.examples.envs import pool_of
from torchrl_pool.examples.results import first_line, warn

# MLflow sets it as well, to the place of the run before.
MLFLOW_PLACE = os.environ.get("MLFLOW_TRACKING_URI")


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

        how: dict[str, Any] = {"format": "gif", "duration": 1000 / self.fps, "loop": 0}
        gif: bytes = imageio.mimsave("<bytes>", cast(Any, self.pictures), **how)
        return gif


@torch.no_grad()
def record_video(
    env: EnvBase, policy: Callable[[TensorDictBase], TensorDictBase], *, max_frames: int = 500
) -> Video:
    """Plays an episode of the first env, from its reset to its last step, with the most likely actions."""
    pool, is_whole = pool_of(env), False

    def picture() -> NDArray[np.uint8]:
        drawn = pool.render(0)[0].numpy()
        height, width, _ = drawn.shape
        return np.pad(drawn, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")

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


# ---- loggers


def open_logger(name: str, folder: Path) -> Logger:
    """A logger of a training that has this folder.

    CSV, TensorBoard and W&B write there, MLflow writes ``mlflow.db`` beside it, for the other seeds as well,
    unless ``MLFLOW_TRACKING_URI`` names a place. trackio has a place of its own.

    Raises:
        ValueError: there is no such logger, or its package is missing or refuses.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if name == "mlflow":  # of get_logger it has a folder, which MLflow does not take any more
            place = MLFLOW_PLACE or f"sqlite:///{folder.resolve().with_name('mlflow.db')}"
            artifacts = None if MLFLOW_PLACE else folder.resolve().with_name("mlruns").as_uri()
            return MLFlowLogger(exp_name=folder.name, tracking_uri=place, artifact_location=artifacts)
        logger: Logger = get_logger(name, logger_name=str(folder), experiment_name=folder.name)
        return logger
    except Exception as error:  # each library has its own
        raise ValueError(f"--logger {name}: {first_line(error)}") from error


def close_logger(logger: Logger) -> None:
    """Writes what is left. MLflow allows no other run in the process before this one's end."""
    logger.close()
    if isinstance(logger, MLFlowLogger):
        import mlflow

        mlflow.end_run()


def log_video(logger: Logger, video: Video, path: Path, step: int) -> None:
    """Hands a video over as it was saved; TensorBoard, which knows pictures only, gets a gif.

    TorchRL's own ``log_video`` encodes it once more, with another package for each logger.
    """
    experiment: Any = logger.experiment
    try:
        if isinstance(logger, CSVLogger):
            shutil.copyfile(path, Path(experiment.log_dir, "videos", f"video_{step}{path.suffix}"))
        elif isinstance(logger, TensorboardLogger):
            from tensorboard.compat.proto.summary_pb2 import Summary

            height, width, _ = video.pictures[0].shape
            shape: dict[str, Any] = {"height": height, "width": width, "colorspace": 3}
            value = Summary.Value(
                tag="video", image=Summary.Image(encoded_image_string=video.as_gif(), **shape)
            )
            experiment.file_writer.add_summary(Summary(value=[value]), step)
        elif isinstance(logger, MLFlowLogger):
            import mlflow

            mlflow.log_artifact(str(path), f"videos/step_{step}")
        elif isinstance(logger, WandbLogger):
            import wandb

            # "step" is the axis that TorchRL's logger gives figures
            experiment.log({"video": wandb.Video(str(path), format=path.suffix[1:]), "step": step})
        elif isinstance(logger, TrackioLogger):
            import trackio

            experiment.log({"video": trackio.Video(path)}, step=step)
    except Exception as error:  # each library has its own
        warn(f"{type(logger).__name__} gets no video: {first_line(error)}")
