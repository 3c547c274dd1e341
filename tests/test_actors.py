"""Actors beside a learner: whose weights chose what, whatever the speed of either side."""

import random
import time
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
import torch
from tensordict.nn.probabilistic import interaction_type
from torchrl.envs.utils import ExplorationType, set_exploration_type

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

from torchrl_pool._collecting.lean_policy import exploring
from torchrl_pool.examples import impala, ppo
from torchrl_pool.examples.actors import Actor

SMALL = {
    ppo: "--frames-per-batch 64 --minibatch-size 32 --epochs 2 --num-envs 4 --preset classic",
    impala: "--steps 8 --minibatches 2 --num-envs 4 --preset classic",
}
programs = pytest.mark.parametrize("program", SMALL, ids=["ppo", "impala"])


@pytest.fixture
def begin(tmp_path):
    begun = []

    def begin(program, *arguments):
        arguments = [*SMALL[program].split(), *arguments]
        config = program.PROGRAM.config_of(program.PROGRAM.parser().parse_args(arguments))
        config.check()
        folder = tmp_path / str(len(begun))
        folder.mkdir()
        begun.append(program.PROGRAM.training(config, folder))
        return begun[-1]

    yield begin
    for training in begun:
        training.close()


def weights_of(training):
    return torch.cat([one.detach().reshape(-1) for one in training.actor.parameters()])


def delay(monkeypatch, actors, learner):
    """Lets each side wait for up to so many seconds, at random."""
    collect = Actor.collect
    chance = random.Random(0)

    def collect_late(self, *arguments):
        time.sleep(chance.uniform(0, actors))
        return collect(self, *arguments)

    monkeypatch.setattr(Actor, "collect", collect_late)
    return lambda: time.sleep(chance.uniform(0, learner))


@programs
@pytest.mark.parametrize("actors", ["1", "2"])
def test_one_behind_gives_equal_weights_whatever_the_speed(program, actors, begin, monkeypatch):
    found = []
    for delays in ((0, 0), (0.03, 0), (0, 0.03)):
        with monkeypatch.context() as patch:
            wait = delay(patch, *delays)
            training = begin(program, "--architecture", "cleanba", "--actors", actors)
            for _ in range(5):
                training.iterate()
                wait()
            found.append(weights_of(training))
            training.close()
    assert all(torch.equal(one, found[0]) for one in found)
    other = begin(program, "--architecture", "cleanba", "--actors", actors, "--seed", "1")
    for _ in range(5):
        other.iterate()
    assert not torch.equal(weights_of(other), found[0])


def test_minibatches_in_parts_give_the_weights_of_whole_ones(begin):
    found = []
    for parts in ("1", "3"):
        arguments = ["--architecture", "cleanba", "--actors", "2", "--gradient-accumulation", parts]
        training = begin(ppo, *arguments)
        assert training.update.gradient_accumulation == int(parts)
        for _ in range(4):
            training.iterate()
        found.append(weights_of(training))
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-5)


@programs
def test_one_behind_acts_with_the_weights_from_before_the_last_update(program, begin):
    training = begin(program, "--architecture", "cleanba", "--actors", "2")
    versions, lags = [weights_of(training)], []
    learn, policy = training._learn, training.make_networks(training.env)[0]

    def learn_and_look(batch):
        stamps = batch["next", "policy_version"].unique()
        assert stamps.numel() == 1
        lags.append(training.iteration - int(stamps))
        torch.nn.utils.vector_to_parameters(versions[int(stamps)], policy.parameters())
        with torch.no_grad():
            chosen = policy.get_dist(batch).log_prob(batch["action"])
        torch.testing.assert_close(chosen, batch["action_log_prob"], rtol=1e-5, atol=1e-6)
        return learn(batch)

    training._learn = learn_and_look
    for _ in range(5):
        training.iterate()
        versions.append(weights_of(training))
    assert lags == [0, 1, 1, 1, 1]
    frames = training.frames_per_batch
    assert training.actors.lags == {0: frames, 1: 4 * frames}


@programs
def test_a_training_one_behind_goes_on_bit_for_bit(program, begin):
    arguments = ["--architecture", "cleanba", "--actors", "2", "--total-frames", "640"]
    whole = begin(program, *arguments)
    for _ in range(6):
        whole.iterate()
    first = begin(program, *arguments)
    for _ in range(3):
        first.iterate()
    state = first.state_dict()
    torch.rand(5)
    second = begin(program, *arguments)
    second.load_state_dict(state)
    for _ in range(3):
        second.iterate()
    assert torch.equal(weights_of(second), weights_of(whole))


@programs
def test_asynchronous_actors_take_the_newest_weights_there_are(program, begin, monkeypatch):
    wait = delay(monkeypatch, 0, 0.02)
    training = begin(program, "--architecture", "asynchronous", "--actors", "2")
    for _ in range(8):
        training.iterate()
        wait()
    assert sum(training.actors.lags.values()) == training.frames
    assert set(training.actors.lags) <= {0, 1, 2}
    state = training.state_dict()  # while they rest, and then they go on
    training.iterate()
    other = begin(program, "--architecture", "asynchronous", "--actors", "2")
    other.load_state_dict(state)
    other.iterate()


@pytest.mark.parametrize("architecture", ["cleanba", "asynchronous"])
def test_what_fails_in_an_actor_is_raised_where_the_learner_waits(architecture, begin, monkeypatch):
    training = begin(ppo, "--architecture", architecture)
    training.iterate()

    def fail(*_):
        raise RuntimeError("no more steps")

    monkeypatch.setattr(Actor, "collect", fail)

    def iterate_often():
        for _ in range(4):
            training.iterate()

    with pytest.raises(RuntimeError, match="no more steps"):
        iterate_often()


@pytest.mark.parametrize("architecture", ["cleanba", "asynchronous"])
def test_nothing_of_exploring_is_left_behind(architecture, begin):
    before = interaction_type()
    training = begin(ppo, "--architecture", architecture)
    training.iterate()
    env = training.evaluation_env(2)
    assert interaction_type() is before
    env.close()
    training.iterate()
    training.close()
    assert interaction_type() is before


def test_what_the_learner_sets_while_an_actor_begins_is_not_left_behind(begin):
    before = interaction_type()
    training = begin(ppo, "--architecture", "cleanba")
    training.iterate()
    wait([part for parts in training.actors._begun for part in parts])
    learner, actor = set_exploration_type(ExplorationType.DETERMINISTIC), exploring(ExplorationType.RANDOM)
    with ThreadPoolExecutor(1) as thread:
        learner.__enter__()
        thread.submit(actor.__enter__).result()
        learner.__exit__(None, None, None)
        thread.submit(actor.__exit__, None, None, None).result()
    training.close()
    assert interaction_type() is before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--architecture", "cleanba", "--actors", "3"], "expected a multiple of 3 actors, got 4"),
        (
            ["--architecture", "cleanba", "--actors", "2", "--normalize-observations"],
            "--actors: expected 1 with --normalize-observations",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(arguments, message, begin):
    with pytest.raises(ValueError, match=message):
        begin(ppo, *arguments)
