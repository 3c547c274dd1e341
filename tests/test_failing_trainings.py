"""What is left of a training that cannot write."""

import csv
import resource

import pytest
import torch

pytest.importorskip("matplotlib")

from torchrl_pool.examples import ppo
from torchrl_pool.examples.training_run import Curve, load_checkpoint, save_checkpoint

PPO = ["--quiet", "--num-envs", "2", "--frames-per-batch", "16", "--minibatch-size", "8", "--epochs", "1"]
PPO += ["--total-frames", "64", "--hidden", "8"]


def folder_of(output, seed=0):
    return output / f"ppo-CartPole-v1-{seed}"


def test_a_checkpoint_that_cannot_be_written_says_why_and_leaves_the_one_before(tmp_path):
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, {"config": {}, "weights": torch.zeros(3)})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(OSError, match=r"checkpoint\.pt cannot be written: .*File too large"):
            save_checkpoint(path, {"config": {}, "weights": torch.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == [path]
    assert load_checkpoint(path)["weights"].shape == (3,)


@pytest.mark.parametrize("name", ["checkpoint.unfinished", "checkpoint.pt"])
def test_a_folder_in_the_way_of_the_checkpoint_costs_nothing_else(name, tmp_path, capsys):
    (folder_of(tmp_path, 1) / name).mkdir(parents=True)
    arguments = ["--seeds", "1", "2", "--evaluate", "1", "--checkpoint-seconds", "0"]
    assert ppo.PROGRAM.main([*PPO, *arguments, "--output", str(tmp_path)]) == 1
    said = [line for line in capsys.readouterr().err.splitlines() if "cannot be written" in line]
    assert len(said) == 5  # after each row, and at the end
    assert all(f"{folder_of(tmp_path, 1) / 'checkpoint.pt'} cannot be written" in line for line in said)
    for seed in (1, 2):
        assert (folder_of(tmp_path, seed) / "curve.png").exists()
        assert (folder_of(tmp_path, seed) / "evaluation.json").exists()
    assert not (folder_of(tmp_path, 1) / "checkpoint.unfinished").is_file()
    assert load_checkpoint(folder_of(tmp_path, 2) / "checkpoint.pt")["iteration"] == 4


def test_a_save_that_fails_is_tried_again(tmp_path, monkeypatch, capsys):
    iterate = ppo.PPOTraining.iterate

    def iterate_and_clear(training):
        if training.iteration == 2:
            (folder_of(tmp_path) / "checkpoint.unfinished").rmdir()
        iterate(training)

    monkeypatch.setattr(ppo.PPOTraining, "iterate", iterate_and_clear)
    (folder_of(tmp_path) / "checkpoint.unfinished").mkdir(parents=True)
    arguments = ["--evaluate", "0", "--checkpoint-seconds", "0", "--output", str(tmp_path)]
    assert ppo.PROGRAM.main([*PPO, *arguments]) == 0
    assert capsys.readouterr().err.count("cannot be written") == 2


def test_a_training_goes_on_where_its_curve_cannot_be_written(tmp_path, capsys):
    (folder_of(tmp_path) / "curve.csv").mkdir(parents=True)
    assert ppo.PROGRAM.main([*PPO, "--evaluate", "1", "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().err.count("curve.csv cannot be written") == 1
    assert load_checkpoint(folder_of(tmp_path) / "checkpoint.pt")["iteration"] == 4


def test_a_curve_is_whole_as_soon_as_it_can_be_written(tmp_path):
    curve = Curve(tmp_path)
    for frames in range(5):
        if frames == 2:
            (tmp_path / "curve.csv").rename(tmp_path / "old.csv")
            (tmp_path / "curve.csv").mkdir()
        if frames == 4:
            (tmp_path / "curve.csv").rmdir()
        curve.add({"frames": frames})
    curve.close()
    with (tmp_path / "curve.csv").open() as file:
        assert [row["frames"] for row in csv.DictReader(file)] == ["0", "1", "2", "3", "4"]
