"""Self-play: the race for coins, the opponents, what is learned, and how it goes on."""

import time

import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

from torchrl_pool import PoolEnv
from torchrl_pool.examples import self_play
from torchrl_pool.examples.options import preset_values
from torchrl_pool.examples.self_play import PROGRAM, Config, Runner, SelfPlayTraining
from torchrl_pool.testing import check_plugin

SMALL = {"num_envs": 4, "frames_per_batch": 128, "minibatch_size": 64, "epochs": 1, "total_frames": 1024}


@pytest.fixture(autouse=True, scope="module")
def _race():
    self_play.build_race()


@pytest.fixture
def make(tmp_path):
    """Makes trainings that are closed at the end of the test."""
    made = []

    def training(**settings):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(SelfPlayTraining(Config(**settings), folder))
        return made[-1]

    yield training
    for one in made:
        one.close()


def finish(training):
    while not training.is_over:
        training.iterate()
    return training.update.state_dict()["parameters"]


def test_the_race_keeps_the_contract():
    check_plugin("CoinRace-v0")


def test_both_players_see_the_same_game():
    env = PoolEnv("CoinRace-v0", 16, seed=0)
    steps = env.rollout(64)["next"]
    own, other = steps["observation"], steps["opponent_observation"]
    torch.testing.assert_close(own[..., 2:4], -other[..., 2:4])
    torch.testing.assert_close(own[..., :2] + own[..., 4:], other[..., :2] + other[..., 4:])  # the coin
    env.close()


def test_who_runs_wins_and_two_runners_are_even():
    run = Runner()

    def both_run(td):
        return td.set("action", torch.stack([run(td["observation"]), run(td["opponent_observation"])], -1))

    def first_runs(td):
        action = torch.stack([run(td["observation"]), torch.zeros(64, dtype=torch.int64)], -1)
        return td.set("action", action)

    env = PoolEnv("CoinRace-v0", 64, seed=0, categorical_action_encoding=True)
    assert env.rollout(64, first_runs)["next", "reward"].sum(1).mean() > 3
    assert abs(env.rollout(64, both_run)["next", "reward"].sum(1).mean()) < 1
    env.close()


def test_it_improves_against_an_opponent_that_it_never_trained_against(make):
    training = make(**{**preset_values(Config, PROGRAM.presets["race"]), "total_frames": 60_000})
    finish(training)
    tests = [row["against_fixed"] for row in training.curve.rows]
    assert tests[0] < -3
    assert tests[-1] > -1


def test_opponents_are_past_versions(make):
    training = make(**SMALL, opponents=3, snapshot_every=2)
    versions = [training.actors.weights()]
    while not training.is_over:
        training.iterate()
        assert any(torch.equal(training._other, version) for version in versions)
        versions.append(training.actors.weights())
    assert [int(row["opponents"]) for row in training.curve.rows] == [1, 2, 2, 3, 3, 3, 3, 3]
    for kept, version in zip(training._opponents, (4, 6, 8), strict=True):
        assert torch.equal(kept, versions[version])


def test_a_resumed_training_ends_with_the_same_weights(make):
    whole = finish(make(**SMALL, snapshot_every=1, test_every=2))
    first = make(**SMALL, snapshot_every=1, test_every=2)
    for _ in range(3):
        first.iterate()
    state = first.state_dict()
    torch.rand(5)
    second = make(**SMALL, snapshot_every=1, test_every=2)
    second.load_state_dict(state)
    assert torch.equal(whole, finish(second))


def test_steps_of_training_are_timed_and_tests_are_neither_collecting_nor_training(make):
    training = make(**SMALL, test_every=1)
    training.test = lambda: time.sleep(0.1) or 0.0
    finish(training)
    timings, seconds = training.clock.timings(), training.clock.seconds
    assert 0 < timings["env_step"] < timings["collecting"]
    assert seconds["other"] > 0.1 * timings["iterations"]


def test_the_program_trains_and_evaluates(tmp_path, capsys):
    arguments = ["--quiet", "--output", str(tmp_path), "--total-frames", "8192", "--evaluate", "4"]
    assert PROGRAM.main(arguments) == 0
    assert "Evaluation, 4 episodes" in capsys.readouterr().out
    assert (tmp_path / "self_play-CoinRace-v0-0" / "curve.png").exists()
