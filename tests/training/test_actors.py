"""Actors beside a learner: whose weights chose what, whatever the speed of either side."""

import copy
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
import torch
from cases import cases
from programs import assert_same, finish, through_a_file
from tensordict import TensorDict
from tensordict.nn.probabilistic import interaction_type
from torchrl.envs.utils import ExplorationType, set_exploration_type

pytest.importorskip("tyro")

from torchrl_pool._collecting.direct_policy import exploring
from torchrl_pool.examples.actors import Actor, Threaded

programs = pytest.mark.parametrize("program", cases(["ppo", "impala"]))


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
@pytest.mark.parametrize("actors", cases(["1", "2"]))
def test_one_behind_gives_equal_weights_whatever_the_speed(program, actors, begin, monkeypatch):
    found = []
    for delays in ((0, 0), (0.03, 0), (0, 0.03)):
        with monkeypatch.context() as patch:
            wait = delay(patch, *delays)
            training = begin(
                program, "--architecture", "cleanba", "--actors", actors, "--total-frames", "1280"
            )
            for _ in range(5):
                training.iterate()
                wait()
            found.append(weights_of(training))
            training.close()
    assert all(torch.equal(one, found[0]) for one in found)
    other = begin(
        program, "--architecture", "cleanba", "--actors", actors, "--seed", "1", "--total-frames", "1280"
    )
    for _ in range(5):
        other.iterate()
    assert not torch.equal(weights_of(other), found[0])


def test_minibatches_in_parts_give_the_weights_of_whole_ones(begin):
    found = []
    for parts in ("1", "3"):
        arguments = ["--architecture", "cleanba", "--actors", "2", "--gradient-accumulation", parts]
        training = begin("ppo", *arguments)
        assert training.parts["update"].gradient_accumulation == int(parts)
        for _ in range(4):
            training.iterate()
        found.append(weights_of(training))
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-5)


@programs
def test_one_behind_acts_with_the_weights_from_before_the_last_update(program, begin, monkeypatch):
    training = begin(program, "--architecture", "cleanba", "--actors", "2", "--total-frames", "1280")
    versions, lags, actors = [weights_of(training)], [], training.parts["actors"]
    policy, take = copy.deepcopy(training.actor), actors.next

    def take_and_look(version):
        batch = take(version)
        stamps = batch["next", "policy_version"].unique()
        assert stamps.numel() == 1
        lags.append(version - int(stamps))
        torch.nn.utils.vector_to_parameters(versions[int(stamps)], policy.parameters())
        with torch.no_grad():
            chosen = policy.get_dist(batch).log_prob(batch["action"])
        torch.testing.assert_close(chosen, batch["action_log_prob"], rtol=1e-5, atol=1e-6)
        return batch

    monkeypatch.setattr(actors, "next", take_and_look)
    for _ in range(5):
        training.iterate()
        versions.append(weights_of(training))
    assert lags == [0, 1, 1, 1, 1]
    assert [row["lag"] for row in training.curve.rows] == lags


@programs
def test_asynchronous_actors_take_the_newest_weights_there_are(program, begin, monkeypatch):
    wait = delay(monkeypatch, 0, 0.02)
    training = begin(program, "--architecture", "asynchronous", "--actors", "2", "--total-frames", "2560")
    for _ in range(8):
        training.iterate()
        wait()
    assert {row["largest_lag"] for row in training.curve.rows} <= {0, 1, 2}
    state = training.state_dict()  # while they rest, and then they go on
    training.iterate()
    other = begin(program, "--architecture", "asynchronous", "--actors", "2", "--total-frames", "2560")
    other.load_state_dict(state)
    other.iterate()


@pytest.mark.parametrize("architecture", cases(["cleanba", "asynchronous"]))
def test_what_fails_in_an_actor_is_raised_where_the_learner_waits(architecture, begin, monkeypatch):
    training = begin("ppo", "--architecture", architecture, "--total-frames", "1280")
    training.iterate()

    def fail(*_):
        raise RuntimeError("no more steps")

    monkeypatch.setattr(Actor, "collect", fail)

    def iterate_often():
        for _ in range(4):
            training.iterate()

    with pytest.raises(RuntimeError, match="no more steps"):
        iterate_often()


@pytest.mark.parametrize("architecture", cases(["cleanba", "asynchronous"]))
def test_nothing_of_exploring_is_left_behind(architecture, begin):
    before = interaction_type()
    training = begin("ppo", "--architecture", architecture)
    training.iterate()
    env = training.evaluation_env(2)
    assert interaction_type() is before
    env.close()
    training.iterate()
    training.close()
    assert interaction_type() is before


def test_what_the_learner_sets_while_an_actor_begins_is_not_left_behind(begin):
    before = interaction_type()
    training = begin("ppo", "--architecture", "cleanba")
    training.iterate()
    wait([part for parts in training.parts["actors"]._begun for part in parts])
    learner, actor = set_exploration_type(ExplorationType.DETERMINISTIC), exploring(ExplorationType.RANDOM)
    with ThreadPoolExecutor(1) as thread:
        learner.__enter__()
        thread.submit(actor.__enter__).result()
        learner.__exit__(None, None, None)
        thread.submit(actor.__exit__, None, None, None).result()
    training.close()
    assert interaction_type() is before


# ---- how far they get ahead


class CountingActor:
    """Makes batches that hold their number and the version of the weights that they were made with."""

    def __init__(self, seconds=0.0):
        self.seconds, self.made, self.is_making = seconds, 0, threading.Event()

    def collect(self, version, weights):
        self.is_making.set()
        time.sleep(self.seconds)
        self.is_making.clear()
        self.made += 1
        return TensorDict(
            {"number": torch.full((1, 1), self.made - 1), "version": torch.full((1, 1), version)}, [1, 1]
        )


@pytest.fixture
def threaded():
    begun = []

    def threaded(actor, max_lag, **options):
        actor.close = lambda: None
        begun.append(Threaded([actor], torch.nn.Linear(1, 1), max_lag, **options))
        return begun[-1]

    yield threaded
    for one in begun:
        one.close()


@pytest.mark.parametrize("exact", cases([False, True]))
@pytest.mark.parametrize("max_lag", [0, 1, 3])
def test_nothing_is_begun_further_ahead_than_asked(max_lag, exact, threaded):
    actor = CountingActor()
    actors = threaded(actor, max_lag, exact=exact)
    for k in range(10):
        batch = actors.next(k)
        assert batch["number"].item() == k
        assert 0 <= k - batch["version"].item() <= max_lag
        if exact:
            assert batch["version"].item() == max(0, k - max_lag)
        deadline = time.monotonic() + 60
        while actor.made < k + max_lag + 1 and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.002)
        assert actor.made == k + max_lag + 1


def test_at_rest_nothing_is_made(threaded):
    actor = CountingActor(seconds=0.01)
    actors = threaded(actor, 2)
    for k in range(5):
        actors.next(k)
        actors.rest()
        for _ in range(3):
            assert not actor.is_making.is_set()
            time.sleep(0.002)


@pytest.mark.parametrize("slow", ["learner", "collector"])
@pytest.mark.parametrize("max_lag", cases(default=["1", "3"], also=["0"]))
def test_no_step_is_older_than_max_lag(max_lag, slow, begin, monkeypatch):
    training = begin("appo", "--max-lag", max_lag, "--refreshes", "4", "--total-frames", "1536")
    wait_for_actor = delay(monkeypatch, *((0, 0.01) if slow == "learner" else (0.01, 0)))
    while not training.is_over:
        training.iterate()
        wait_for_actor()
    largest = [row["largest_lag"] for row in training.curve.rows]
    assert max(largest) <= int(max_lag)
    assert all(0 <= row["lag"] <= row["largest_lag"] for row in training.curve.rows)


def test_double_buffering_and_threads_keep_all_steps(begin, monkeypatch):
    training = begin("appo", "--max-lag 1 --refreshes 1 --double-buffered --total-frames 2048")
    steps, note = [], training.note
    monkeypatch.setattr(training, "note", lambda batch: (steps.append(batch.clone()), note(batch)))
    finish(training)
    batches = torch.cat(steps, 1)
    going_on = ~batches["next", "done"][:, :-1, 0]
    after, following = batches["next", "observation"][:, :-1], batches["observation"][:, 1:]
    assert torch.equal(after[going_on], following[going_on])


def test_a_training_with_lag_can_go_on(begin, tmp_path):
    options = "--max-lag", "2", "--total-frames", "1024"
    first = begin("appo", *options)
    for _ in range(3):
        first.iterate()
    state = through_a_file(first.state_dict(), tmp_path)
    second = begin("appo", *options)
    second.load_state_dict(state)
    assert torch.equal(weights_of(second), weights_of(first))
    finish(first)  # the one that was saved goes on, too
    finish(second)
    assert max(row["largest_lag"] for row in second.curve.rows) <= 2
    assert [row["frames"] for row in second.curve.rows] == [128 * (n + 1) for n in range(8)]


@pytest.mark.parametrize("slow_side", cases(["envs", "updates"]))
def test_parallel_trainings_do_not_depend_on_speed(slow_side, begin, monkeypatch):
    """Of programs with a replay buffer: a batch is collected with the weights from before its updates."""
    options = (
        "--parallel --num-envs 4 --frames-per-batch 8 --updates-per-batch 3",
        "--total-frames",
        "96",
    )
    as_it_is = finish(begin("sac", *options))
    delayed = begin("sac", *options)
    wait_in_learner = delay(monkeypatch, *((0.03, 0) if slow_side == "envs" else (0, 0.03)))
    note = delayed.note
    monkeypatch.setattr(delayed, "note", lambda batch: (wait_in_learner(), note(batch)))
    assert_same(finish(delayed), as_it_is)
    assert as_it_is["update"]["count"] == (96 // 8 - 40 // 8) * 3
