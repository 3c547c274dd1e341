"""Population-based training: who goes on from whom, with what, and what that finds."""

import csv

import pytest
import torch
from cases import cases
from programs import assert_same, finish, through_a_file, weights_of

from torchrl_pool.examples.appo import PROGRAM, Config
from torchrl_pool.examples.envs import normalizer_of
from torchrl_pool.examples.population import MUTATED, Population, go_on_from

SMALL = "--preset classic --frames-per-batch 128 --minibatch-size 64 --epochs 1 --entropy-coef 0.01"
SMALL += " --no-anneal-learning-rate --population 3 --exchange-frames 256 --total-frames 2304"


@pytest.fixture
def population(begin):
    return lambda *more: begin("appo", *SMALL.split(), *more)


def test_the_worst_go_on_from_the_best():
    exchange = Population(Config(), [])
    for _ in range(20):
        parents = exchange.parents([5.0, 100.0, 60.0, 1.0, 99.0, 50.0, 70.0, 40.0, 30.0, 20.0])
        assert all(parents[i] in (1, 4, 6) for i in (0, 3, 9))
        assert all(parents[i] == i for i in (1, 2, 4, 5, 6, 7, 8))
    assert exchange.parents([100.0, 95.0]) == [0, 1]  # not clearly worse
    assert exchange.parents([-100.0, -200.0]) == [0, 0]
    assert exchange.parents([float("-inf"), 1.0]) == [1, 1]


def test_mutations_are_small_and_as_frequent_as_asked():
    exchange = Population(Config(), [])
    factors = [exchange.mutated({"learning_rate": 2.0}, 0.25)["learning_rate"] / 2 for _ in range(2000)]
    assert sum(factor != 1 for factor in factors) == pytest.approx(500, abs=80)
    assert all(factor == 1 or 1.1 <= max(factor, 1 / factor) <= 1.5 for factor in factors)
    assert exchange.mutated({"entropy_coef": 0.0}, 1.0) == {"entropy_coef": 0.0}


def test_mutations_stay_within_the_limits_of_settings():
    exchange, values = Population(Config(), []), {"clip_epsilon": 0.9}
    seen = []
    for _ in range(200):
        values = exchange.mutated(values, 1.0)
        seen.append(values["clip_epsilon"])
    assert 0 < min(seen) < max(seen) < 1


def test_a_member_goes_on_from_another_one(population):
    whole = population("--normalize-observations", "--normalize-rewards")
    whole.iterate()
    one, other = whole.members[:2]
    go_on_from(one, other)
    assert torch.equal(weights_of(one), weights_of(other))
    assert torch.equal(one.parts["actors"].published[1], other.parts["actors"].weights())
    mine, theirs = (member.parts["scaling"].state_dict() for member in (one, other))
    assert mine["var"] == theirs["var"]
    assert not torch.equal(mine["returns"], theirs["returns"])
    mine, theirs = (normalizer_of(member.env).loc["observation"] for member in (one, other))
    assert torch.equal(mine, theirs)
    one.iterate()  # ... and goes its own way
    assert not torch.equal(weights_of(one), weights_of(other))


def test_hyperparameters_take_effect(population):
    member = population().members[0]
    member.set(learning_rate=0.0, clip_epsilon=0.3)
    before = weights_of(member)
    member.iterate()
    assert torch.equal(before, weights_of(member))
    member.set(learning_rate=0.1)
    member.iterate()
    assert not torch.equal(before, weights_of(member))


@pytest.mark.slow  # trains
def test_a_planted_learning_rate_is_found(population):
    whole = population(
        "--num-envs 32 --frames-per-batch 2048 --minibatch-size 512 --epochs 3 --population 4",
        f"--exchange-frames 2048 --total-frames {4 * 7 * 2048} --learning-rate 1e-6",
    )
    whole.members[2].set(learning_rate=3e-3)
    finish(whole)
    rates = [member.config.learning_rate for member in whole.members]
    assert all(1e-3 < rate < 1e-2 for rate in rates), rates
    assert whole.curve.mean_return > 30
    assert any(row["parent"] == 2 and row["policy"] != 2 for row in whole.parts["population"].history)


@pytest.mark.parametrize(
    "more", cases([[], ["--kl-target", "1e-9"]]), ids=["plain", "adapted learning rates"]
)
def test_equal_seeds_give_equal_populations_and_one_goes_on_bit_for_bit(more, population, tmp_path):
    expected = finish(population(*more))
    assert_same(finish(population(*more)), expected)
    first = population(*more)
    for _ in range(3):
        first.iterate()
    state = through_a_file(first.state_dict(), tmp_path)
    torch.rand(5)
    second = population(*more)
    second.load_state_dict(state)
    assert_same(finish(second), expected)


def test_what_exchanges_change_cannot_be_set_in_between(tmp_path, capsys):
    arguments = [*SMALL.split(), "--num-envs", "4", "--quiet", "--evaluate", "0"]
    assert PROGRAM.main([*arguments, "--output", str(tmp_path)]) == 0
    resume = ["--quiet", "--resume", str(tmp_path / "appo-CartPole-v1-0"), "--learning-rate", "0.5"]
    with pytest.raises(SystemExit):
        PROGRAM.main(resume)
    assert "--learning-rate: expected 0.003, as the population began" in capsys.readouterr().err


def test_the_program_leaves_the_hyperparameters_over_time(tmp_path):
    arguments = [*SMALL.split(), "--num-envs", "4", "--max-lag", "1"]
    assert PROGRAM.main([*arguments, "--quiet", "--output", str(tmp_path)]) == 0
    folder = tmp_path / "appo-CartPole-v1-0"
    rows = read_csv(folder / "population.csv")
    assert [row["frames"] for row in rows[::3]] == ["256", "512", "768"]
    assert {"policy", "return", "parent", *MUTATED} <= set(rows[0])
    assert (folder / "population.png").read_bytes().startswith(b"\x89PNG")
    assert all((folder / f"policy-{i}" / "curve.csv").exists() for i in range(3))


def read_csv(path):
    with path.open() as file:
        return list(csv.DictReader(file))
