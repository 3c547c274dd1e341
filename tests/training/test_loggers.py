"""TorchRL's loggers get the videos of trainings."""

import importlib.util

import numpy as np
import pytest
from cases import cases

from torchrl_pool.examples.results import close_logger, frame_rate, log_video, open_logger, save_video

PICTURES = np.arange(10, dtype=np.uint8).repeat(32 * 48 * 3).reshape(10, 32, 48, 3)


def test_a_folder_gets_the_file_of_the_video(tmp_path, capsys):
    path = save_video(PICTURES, 30, tmp_path / "video")
    logger = open_logger("csv", tmp_path / "runs" / "one")
    log_video(logger, PICTURES, path, 512)
    (copy,) = (tmp_path / "runs").rglob("video_512.*")
    assert copy.read_bytes() == path.read_bytes()
    log_video(logger, PICTURES, tmp_path / "missing.gif", 513)
    close_logger(logger)
    assert "CSVLogger gets no video: " in capsys.readouterr().err


@pytest.mark.parametrize("name", cases(["tensorboard", "mlflow", "wandb"]))
def test_a_logger_that_lacks_what_encodes_videos_says_so(name, tmp_path, monkeypatch, capsys):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    logger = open_logger(name, tmp_path / "runs" / "one")
    monkeypatch.setattr(type(logger), "log_video", lambda *arguments, **more: 1 / 0)
    log_video(logger, PICTURES, tmp_path, 512)
    logger.log_metrics({"return": 1.0}, 512)
    close_logger(logger)
    assert f"{type(logger).__name__} gets no video: division by zero" in capsys.readouterr().err


def test_videos_are_as_fast_as_gymnasiums():
    assert frame_rate("HalfCheetah-v5") == frame_rate("gymnasium:HalfCheetah-v5") == 20
    assert frame_rate("no task of Gymnasium's") == 30
