"""The training programs on MiniGrid and BabyAI: what the network reads, and that it learns."""

import re

import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

from torchrl_pool import MISSION_WORDS, PoolEnv
from torchrl_pool.examples import dqn, impala, ppo, sac
from torchrl_pool.examples.networks import GridFeatures

SHORT = ["--total-frames", "64", "--num-envs", "4", "--evaluate", "1", "--quiet"]


def observed(task="BabyAI-GoToLocal-v0", **options):
    return PoolEnv(task, 4, seed=0, mission="words", **options).reset()


def test_the_network_reads_all_numbers_that_there_are():
    root = observed("BabyAI-BossLevel-v0")
    assert root["mission"].max() < len(MISSION_WORDS)
    image = torch.tensor([10, 5, 3], dtype=torch.uint8).expand(4, 7, 7, 3)  # the last of each kind
    mission = torch.full((4, 50), len(MISSION_WORDS) - 1)
    assert GridFeatures()(image, mission).isfinite().all()


def test_features_follow_from_cells_and_from_words():
    torch.manual_seed(0)
    root, network = observed(), GridFeatures()
    image, mission = root["image"], root["mission"]
    features = network(image, mission)
    assert features.shape == (4, GridFeatures.size)
    assert torch.equal(network(image, mission.flip(-1)), features)  # order and padding do not count
    assert (network(image, mission.roll(1, 0)) != features).any()
    assert (network(image.roll(1, 0), mission) != features).any()


def test_it_learns_to_reach_a_goal(tmp_path, capsys):
    arguments = ["--task", "MiniGrid-Empty-5x5-v0", "--total-frames", "131072", "--until-return", "0.8"]
    assert ppo.PROGRAM.main([*arguments, "--quiet", "--evaluate", "0", "--output", str(tmp_path)]) == 0
    frames = int(re.search(r"(\d+) frames", capsys.readouterr().out)[1])
    assert frames < 131_072  # it has stopped at the return


@pytest.mark.parametrize(
    ("program", "more"),
    [
        (ppo.PROGRAM, ["--frames-per-batch", "32", "--minibatch-size", "16"]),
        (
            ppo.PROGRAM,
            [
                "--frames-per-batch",
                "32",
                "--minibatch-size",
                "16",
                "--recurrent",
                "gru",
                "--sequence-length",
                "4",
            ],
        ),
        (impala.PROGRAM, ["--steps", "8"]),
    ],
    ids=["ppo", "ppo with a memory", "impala"],
)
def test_programs_that_train_on_missions(program, more, tmp_path):
    arguments = ["--task", "BabyAI-GoToLocal-v0", *SHORT, *more, "--output", str(tmp_path)]
    assert program.main(arguments) == 0


@pytest.mark.parametrize(
    ("program", "task", "message"),
    [
        (
            dqn.PROGRAM,
            "MiniGrid-Empty-5x5-v0",
            "expected an entry 'observation', got 'image', 'direction'",
        ),
        (sac.PROGRAM, "CarRacing-v3", "expected pictures [channels, 84, 84], got [96, 96, 3]"),
    ],
)
def test_programs_without_such_networks_say_so(program, task, message, tmp_path, capsys):
    with pytest.raises(SystemExit):
        program.main(["--task", task, "--quiet", "--output", str(tmp_path)])
    assert f"--task: {message}" in capsys.readouterr().err
