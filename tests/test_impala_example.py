"""The IMPALA example: that it learns, what it leaves behind, its presets."""

import csv
import json

import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

from torchrl_pool import PoolEnv
from torchrl_pool.examples.impala import PROGRAM
from torchrl_pool.examples.networks import actor_and_critic, impala_resnet, nature_cnn


def test_it_learns_to_balance_a_pole(tmp_path):
    arguments = ["--total-frames", "100000", "--evaluate", "20", "--quiet", "--output", str(tmp_path)]
    assert PROGRAM.main(arguments) == 0
    folder = tmp_path / "impala-CartPole-v1-0"
    with (folder / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert float(rows[0]["return"]) < 40 or rows[0]["return"] == "nan"
    assert json.loads((folder / "evaluation.json").read_text())["mean"] > 150
    assert {float(row["lag"]) for row in rows} == {0.0, 1.0}
    for name in ("curve.png", "lag.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_the_deep_network_has_the_papers_size():
    network = impala_resnet(4)
    assert network(torch.zeros(2, 4, 84, 84, dtype=torch.uint8)).shape == (2, 256)
    convolutions = [one for one in network.modules() if isinstance(one, torch.nn.Conv2d)]
    assert len(convolutions) == 15
    assert sum(one.numel() for one in network.parameters()) == 1_089_232


@pytest.mark.parametrize(("network", "size"), [(nature_cnn, 512), (impala_resnet, 256)])
@pytest.mark.parametrize("side", [84, 96])  # Atari's pictures, CarRacing's
def test_networks_fit_the_side_of_pictures(network, size, side):
    assert network(3, side)(torch.zeros(2, 3, side, side, dtype=torch.uint8)).shape == (2, size)


@pytest.mark.parametrize("preset", PROGRAM.presets)
def test_a_preset_runs_with_its_networks(preset, tmp_path):
    arguments = ["--preset", preset, "--total-frames", "1", "--num-envs", "8", "--steps", "2"]
    training = PROGRAM.training(PROGRAM.config_of(PROGRAM.parser().parse_args(arguments)), tmp_path)
    training.iterate()
    assert training.is_over
    training.close()


def test_heads_share_the_network_of_pictures():
    env = PoolEnv("ALE/Pong-v5", 1, categorical_action_encoding=True)
    actor, critic = actor_and_critic(env, "", "normal", pictures=impala_resnet)
    shared = set(actor.parameters()) & set(critic.parameters())
    assert sum(one.numel() for one in shared) == sum(one.numel() for one in impala_resnet(4).parameters())
    env.close()
