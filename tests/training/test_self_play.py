"""Self-play: the race for coins, the opponents, what is learned, and how it goes on."""

import pytest
import torch
from programs import curve_in

from torchrl_pool import PoolEnv
from torchrl_pool.examples import self_play
from torchrl_pool.examples.self_play import Runner
from torchrl_pool.testing import check_plugin


@pytest.fixture(autouse=True, scope="module")
def _race():
    self_play.build_race()


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


def test_it_improves_against_an_opponent_that_it_never_trained_against(tmp_path):
    options = ["--preset", "race", "--total-frames", "60000", "--quiet", "--output", str(tmp_path)]
    assert self_play.PROGRAM.main(options) == 0
    tests = [float(row["against_fixed"]) for row in curve_in(tmp_path / "self_play-CoinRace-v0-0")]
    assert next(one for one in tests if one == one) < -3
    assert tests[-1] > -1


def test_opponents_are_past_versions(begin):
    training = begin("self_play", "--opponents 3 --snapshot-every 2 --total-frames 1024")
    actors, opponents = training.parts["actors"], training.parts["opponents"]
    versions = [actors.weights()]
    while not training.is_over:
        training.iterate()
        versions.append(actors.weights())
        drawn = opponents.draw()
        assert any(torch.equal(drawn, version) for version in versions)
    assert [int(row["opponents"]) for row in training.curve.rows] == [1, 2, 2, 3, 3, 3, 3, 3]
    for kept, version in zip(opponents.state_dict()["versions"], (4, 6, 8), strict=True):
        assert torch.equal(kept, versions[version])
