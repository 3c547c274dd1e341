"""The networks of the training programs: for pictures, and for grids with missions."""

import pytest
import torch
from cases import cases

from torchrl_pool import MISSION_WORDS, PoolEnv
from torchrl_pool.examples import dqn, sac
from torchrl_pool.examples.networks import GridFeatures, actor_and_critic, impala_resnet, nature_cnn


def test_the_deep_network_has_the_papers_size():
    network = impala_resnet(4)
    assert network(torch.zeros(2, 4, 84, 84, dtype=torch.uint8)).shape == (2, 256)
    convolutions = [one for one in network.modules() if isinstance(one, torch.nn.Conv2d)]
    assert len(convolutions) == 15
    assert sum(one.numel() for one in network.parameters()) == 1_089_232


@pytest.mark.parametrize(("network", "size"), [(impala_resnet, 256), (nature_cnn, 512)])
@pytest.mark.parametrize("side", cases([84, 96]))  # Atari's pictures, CarRacing's
def test_networks_fit_the_side_of_pictures(network, size, side):
    assert network(3, side)(torch.zeros(2, 3, side, side, dtype=torch.uint8)).shape == (2, size)


def test_heads_share_the_network_of_pictures():
    env = PoolEnv("ALE/Pong-v5", 1, categorical_action_encoding=True)
    actor, critic = actor_and_critic(env, "", "normal", pictures=impala_resnet)
    shared = set(actor.parameters()) & set(critic.parameters())
    assert sum(one.numel() for one in shared) == sum(one.numel() for one in impala_resnet(4).parameters())
    env.close()


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


@pytest.mark.slow  # trains
def test_it_learns_to_reach_a_goal(begin):
    options = ["--task", "MiniGrid-Empty-5x5-v0", "--preset", "rl-starter-grid", "--total-frames", "131072"]
    sizes = ["--num-envs", "64", "--frames-per-batch", "8192", "--minibatch-size", "512", "--epochs", "4"]
    training = begin("ppo", *options, *sizes)
    while not training.is_over and not training.curve.has_reached(0.8):
        training.iterate()
    assert not training.is_over


@pytest.mark.parametrize(
    ("name", "more"),
    cases(
        default=[("ppo", []), ("impala", [])],
        also=[("ppo", ["--recurrent", "gru", "--sequence-length", "4"])],
    ),
)
def test_programs_that_train_on_missions(name, more, begin):
    begin(name, "--task", "BabyAI-GoToLocal-v0", *more).iterate()


@pytest.mark.parametrize(
    ("program", "task", "message"),
    cases(
        [
            (
                dqn.PROGRAM,
                "MiniGrid-Empty-5x5-v0",
                "expected an entry 'observation', got 'image', 'direction'",
            ),
            (sac.PROGRAM, "CarRacing-v3", "expected pictures [channels, 84, 84], got [96, 96, 3]"),
        ]
    ),
)
def test_programs_without_such_networks_say_so(program, task, message, tmp_path, capsys):
    with pytest.raises(SystemExit):
        program.main(["--task", task, "--quiet", "--output", str(tmp_path)])
    assert f"--task: {message}" in capsys.readouterr().err
