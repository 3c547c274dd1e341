"""Where a training's figures and video go besides its folder: TorchRL's loggers, by name."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torchrl.record.loggers import Logger, get_logger
from torchrl.record.loggers.mlflow import MLFlowLogger

from torchrl_pool.examples.video import Video


def open_logger(name: str, folder: Path) -> Logger:
    """A logger of a training that has this folder.

    CSV, TensorBoard, W&B and MLflow write there. trackio has a place of its own; MLflow and W&B go elsewhere
    where ``MLFLOW_TRACKING_URI`` and ``WANDB_MODE`` say so.

    Raises:
        ValueError: there is no such logger, or its package is missing or refuses.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if name == "mlflow":  # of get_logger it has a folder, which MLflow does not take any more
            place = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.resolve() / 'mlflow.db'}"
            artifacts = (folder.resolve() / "mlruns").as_uri() if place.startswith("sqlite:") else None
            return MLFlowLogger(exp_name=folder.name, tracking_uri=place, artifact_location=artifacts)
        logger: Logger = get_logger(name, logger_name=str(folder), experiment_name=folder.name)
        return logger
    except Exception as error:  # each library has its own
        reason = str(error).partition("\n")[0]
        raise ValueError(f"--logger {name}: {reason}") from error


def close_logger(logger: Logger) -> None:
    """Writes what is left. MLflow allows no other run in the process before this one's end."""
    logger.close()
    if isinstance(logger, MLFlowLogger):
        import mlflow

        mlflow.end_run()


def log_video(logger: Logger, video: Video, step: int) -> None:
    """Sends a video.

    Raises:
        OSError: the package that encodes the logger's videos is missing.
    """
    frames = torch.from_numpy(np.stack(video.pictures)).permute(0, 3, 1, 2)[None]  # [1, T, 3, H, W]
    try:
        logger.log_video("video", frames, step=step, fps=max(1, round(video.fps)))
    except Exception as error:  # TorchRL raises Exception itself where moviepy is missing
        raise OSError(f"{type(logger).__name__} takes no video: {error}") from error
