"""TorchRL's loggers, by name: they get a training's figures and its video."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from torchrl.record.loggers import CSVLogger, Logger, TensorboardLogger, WandbLogger, get_logger
from torchrl.record.loggers.mlflow import MLFlowLogger
from torchrl.record.loggers.trackio import TrackioLogger

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
            image = Summary.Image(
                height=height, width=width, colorspace=3, encoded_image_string=video.as_gif()
            )
            experiment.file_writer.add_summary(Summary(value=[Summary.Value(tag="video", image=image)]), step)
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
