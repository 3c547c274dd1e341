"""Population-based training: who goes on from whom, with what, and what that finds."""

import csv
import random

import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

from torchrl_pool.examples.appo import PROGRAM, APPOTraining, Config, train
from torchrl_pool.examples.envs import normalizer_of
from torchrl_pool.examples.options import preset_values
from torchrl_pool.examples.population import MUTATED, Exchange, Population, hyperparameters_of

SMALL = {
    **preset_values(Config, PROGRAM.presets["classic"]),
    "num_envs": 4,
    "frames_per_batch": 128,
    "minibatch_size": 64,
    "epochs": 1,
    "entropy_coef": 0.01,
    "anneal_learning_rate": False,
    "max_lag": 0,
    "population": 3,
    "exchange_frames": 256,
    "total_frames": 3 * 768,
}


@pytest.fixture
def make(make_training):
    return lambda **settings: make_training(train, Config(**{**SMALL, **settings}))


def finish(population):
    while not population.is_over:
        population.iterate()
    return [member.update.state_dict()["parameters"] for member in population.members]


def test_the_worst_go_on_from_the_best():
    exchange = Exchange(1.0, random.Random(0), Config)
    for _ in range(20):
        parents = exchange.parents([5.0, 100.0, 60.0, 1.0, 99.0, 50.0, 70.0, 40.0, 30.0, 20.0])
        assert all(parents[i] in (1, 4, 6) for i in (0, 3, 9))
        assert all(parents[i] == i for i in (1, 2, 4, 5, 6, 7, 8))
    assert exchange.parents([100.0, 95.0]) == [0, 1]  # not clearly worse
    assert exchange.parents([-100.0, -200.0]) == [0, 0]
    assert exchange.parents([float("-inf"), 1.0]) == [1, 1]


def test_mutations_are_small_and_as_frequent_as_asked():
    exchange = Exchange(0.25, random.Random(0), Config)
    factors = [exchange.mutated({"learning_rate": 2.0})["learning_rate"] / 2 for _ in range(2000)]
    assert sum(factor != 1 for factor in factors) == pytest.approx(500, abs=80)
    assert all(factor == 1 or 1.1 <= max(factor, 1 / factor) <= 1.5 for factor in factors)
    assert exchange.mutated({"entropy_coef": 0.0}) == {"entropy_coef": 0.0}


def test_mutations_stay_within_the_limits_of_settings():
    exchange, values = Exchange(1.0, random.Random(0), Config), {"clip_epsilon": 0.9}
    seen = []
    for _ in range(200):
        values = exchange.mutated(values)
        seen.append(values["clip_epsilon"])
    assert 0 < min(seen) < max(seen) < 1


def test_a_member_becomes_another_one(make):
    population = make(normalize_observations=True, normalize_rewards=True)
    population.iterate()
    one, other = population.members[:2]
    one.become(other)
    assert torch.equal(*[member.update.state_dict()["parameters"] for member in (one, other)])
    assert torch.equal(one.actors.published[1], other.actors.weights())
    assert one.scaling._var == other.scaling._var
    assert not torch.equal(one.scaling._returns, other.scaling._returns)
    mine, theirs = (normalizer_of(member.env).loc["observation"] for member in (one, other))
    assert torch.equal(mine, theirs)
    one.iterate()  # ... and goes its own way
    assert not torch.equal(one.actors.weights(), other.actors.weights())


def test_hyperparameters_take_effect(make):
    member = make().members[0]
    member.set(learning_rate=0.0, entropy_coef=0.5, clip_epsilon=0.3, value_coef=2.0)
    before = member.update.state_dict()["parameters"]
    member.iterate()
    assert torch.equal(before, member.update.state_dict()["parameters"])
    loss = member.loss
    assert (loss.entropy_coeff, loss.clip_epsilon, loss.critic_coeff) == pytest.approx((0.5, 0.3, 2.0))


def test_an_adapted_learning_rate_stays_where_nothing_changes_it(make):
    member = make().members[0]
    group = member.update.optimizer.param_groups[0]
    group["lr"] = 1e-5
    member.set(**hyperparameters_of(member))
    assert group["lr"] == 1e-5
    member.set(learning_rate=1e-3)
    assert group["lr"] == 1e-3


@pytest.mark.parametrize("clip_value", [True, False])
def test_clipped_values_move_as_far_as_probabilities(make, clip_value):
    member = make(clip_value=clip_value).members[0]
    member.set(clip_epsilon=0.3)
    found = member.loss.clip_value
    assert found == pytest.approx(0.3) if clip_value else found is None


def test_a_planted_learning_rate_is_found(make):
    settings = {"num_envs": 32, "frames_per_batch": 2048, "minibatch_size": 512, "epochs": 3}
    population = make(
        **settings, population=4, exchange_frames=2048, total_frames=4 * 7 * 2048, learning_rate=1e-6
    )
    population.members[2].set(learning_rate=3e-3)
    finish(population)
    rates = [member.config.learning_rate for member in population.members]
    assert all(1e-3 < rate < 1e-2 for rate in rates), rates
    assert population.curve.mean_return > 30
    history = population._history
    assert any(row["parent"] == 2 and row["policy"] != 2 for row in history)


@pytest.mark.parametrize("settings", [{}, {"kl_target": 1e-9}], ids=["plain", "adapted learning rates"])
def test_equal_seeds_give_equal_populations_and_one_goes_on_bit_for_bit(make, settings):
    whole = make(**settings)
    expected = finish(whole)
    assert all(map(torch.equal, expected, finish(make(**settings))))
    first = make(**settings)
    for _ in range(3):
        first.iterate()
    state = first.state_dict()
    torch.rand(5)
    second = make(**settings)
    second.load_state_dict(state)
    assert all(map(torch.equal, expected, finish(second)))
    assert second._history == whole._history


def test_its_iterations_are_those_that_are_timed(make):
    population = make()
    population.iterate()
    assert not population.clock.seconds  # all members' first batches warm up
    population.iterate()
    population.iterate()
    assert population.clock.timings()["iterations"] == 2


def test_the_program_leaves_the_hyperparameters_over_time(tmp_path):
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items() if value is not False]
    arguments = [one for one in arguments if not one.endswith("=True")]
    assert PROGRAM.main(["--quiet", "--output", str(tmp_path), "--max-lag", "1", *arguments]) == 0
    folder = tmp_path / "appo-CartPole-v1-0"
    with (folder / "population.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["frames"] for row in rows[::3]] == ["256", "512", "768"]
    assert {"policy", "return", "parent", *MUTATED} <= set(rows[0])
    assert (folder / "population.png").read_bytes().startswith(b"\x89PNG")
    assert all((folder / f"policy-{i}" / "curve.csv").exists() for i in range(3))


def test_one_policy_is_no_population(make):
    assert isinstance(make(population=1), APPOTraining)
    population = make()
    assert isinstance(population, Population)
    assert hyperparameters_of(population.members[0]) == {name: SMALL.get(name, 0.2) for name in MUTATED} | {
        "value_coef": 0.5
    }
