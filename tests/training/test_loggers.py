"""Videos reach each of TorchRL's loggers as they were saved."""

import importlib.util
import sys

import numpy as np
import pytest

from torchrl_pool.examples.video import Video, close_logger, log_video, open_logger

# A CSV logger needs nothing; the others are libraries of their own.
LOGGERS = ["csv", "tensorboard", "wandb", "mlflow", "trackio"]
STEP = 512


def images_of_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(next(folder.rglob("events.out.tfevents.*")).parent))
    events.Reload()
    return [(image.step, image.encoded_image_string) for image in events.Images("video")]


@pytest.mark.parametrize("name", LOGGERS)
def test_a_logger_gets_the_video(name, tmp_path, monkeypatch, capsys):
    if name != "csv" and importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    if name == "trackio" and "trackio" in sys.modules:
        pytest.skip("trackio has chosen its folder")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pictures = [np.full((32, 48, 3), 20 * i, np.uint8) for i in range(10)]
    video = Video(pictures, fps=30, is_whole=True)
    path = video.save(tmp_path / "video")
    folder = tmp_path / "runs" / "one"
    logger = open_logger(name, folder)
    try:
        logger.log_metrics({"return": 1.0}, STEP)
        log_video(logger, video, path, STEP)
    finally:
        close_logger(logger)
    assert "gets no video" not in capsys.readouterr().err
    if name == "tensorboard":
        assert images_of_tensorboard(folder) == [(STEP, video.as_gif())]
    else:
        copies = [file for file in tmp_path.rglob(f"*{path.suffix}") if file != path]
        assert [file.read_bytes() for file in copies] == [path.read_bytes()]


def test_a_logger_that_gets_no_video(tmp_path, capsys):
    video = Video([np.zeros((32, 48, 3), np.uint8)], fps=30, is_whole=True)
    logger = open_logger("csv", tmp_path)
    log_video(logger, video, tmp_path / "missing.mp4", STEP)
    close_logger(logger)
    assert "CSVLogger gets no video: " in capsys.readouterr().err
