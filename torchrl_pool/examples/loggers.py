"""Where a training's figures and video go besides its folder: TorchRL's loggers, by name."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torchrl.record.loggers import Logger, get_logger
from torchrl.record.loggers.mlflow import MLFlowLogger

from torchrl_pool.examples.results import first_line, warn
from torchrl_pool.examples.video import Video

# MLflow sets it as well, to the place of the run before.
MLFLOW_PLACE = os.environ.get("MLFLOW_TRACKING_URI")


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


def log_video(logger: Logger, video: Video, step: int) -> None:
    """Sends a video; warns where the package that the logger encodes videos with is missing."""
    frames = torch.from_numpy(np.stack(video.pictures)).permute(0, 3, 1, 2)[None]  # [1, T, 3, H, W]
    try:
        logger.log_video("video", frames, step=step, fps=max(1, round(video.fps)))
    except Exception as error:  # TorchRL raises Exception itself where moviepy is missing
        warn(f"{type(logger).__name__} gets no video: {first_line(error)}")
