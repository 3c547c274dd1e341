"""The APPO example: how far its thread gets ahead, what it learns, and how it goes on."""

import csv
import json
import threading
import time

import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

from tensordict import TensorDict
from torchrl.objectives.value.functional import vtrace_advantage_estimate

from torchrl_pool.examples.actors import Threaded
from torchrl_pool.examples.appo import PROGRAM, APPOTraining, Config
from torchrl_pool.examples.options import preset_values
from torchrl_pool.examples.results import save_checkpoint
from torchrl_pool.training import estimate_advantages, estimate_vtrace

SMALL = {
    "num_envs": 4,
    "frames_per_batch": 128,
    "minibatch_size": 64,
    "epochs": 2,
    "total_frames": 1024,
    "entropy_coef": 0.01,
}


@pytest.fixture
def make(make_training):
    return lambda **settings: make_training(APPOTraining, Config(**{**SMALL, **settings}))


def weights_of(training):
    return training.update.state_dict()["parameters"]


def finish(training):
    while not training.is_over:
        training.iterate()
    return weights_of(training)


# ---- the thread


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
def begin():
    begun = []

    def begin(actor, max_lag, **options):
        actor.close = lambda: None
        begun.append(Threaded([actor], torch.nn.Linear(1, 1), max_lag, **options))
        return begun[-1]

    yield begin
    for one in begun:
        one.close()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("max_lag", [0, 1, 3])
def test_nothing_is_begun_further_ahead_than_asked(max_lag, exact, begin):
    actor = CountingActor()
    actors = begin(actor, max_lag, exact=exact)
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


def test_at_rest_nothing_is_made(begin):
    actor = CountingActor(seconds=0.01)
    actors = begin(actor, 2)
    for k in range(5):
        actors.next(k)
        actors.rest()
        for _ in range(3):
            assert not actor.is_making.is_set()
            time.sleep(0.002)


def test_an_error_in_the_thread_is_raised_where_its_batch_is_awaited(begin):
    actor = CountingActor()
    actor.collect = lambda version, weights: 1 / 0
    actors = begin(actor, 1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            actors.next(0)


# ---- the lag


def all_done(actors):
    return all(part.done() for parts in actors._begun for part in parts)


@pytest.mark.parametrize("slow", ["the learner", "the collector"])
@pytest.mark.parametrize("max_lag", [0, 1, 3])
def test_no_step_is_older_than_max_lag(make, max_lag, slow):
    training = make(max_lag=max_lag, refreshes=4, total_frames=128 * 12)
    learn, actor = training._learn, training.actors.actors[0]
    collect = actor.collect

    def wait():
        deadline = time.monotonic() + 60
        while not all_done(training.actors) and time.monotonic() < deadline:
            time.sleep(0.001)

    if slow == "the learner":
        training._learn = lambda batch: (wait(), learn(batch))[1]
    else:
        actor.collect = lambda *due: (time.sleep(0.02), collect(*due))[1]
    finish(training)
    largest = [row["largest_lag"] for row in training.curve.rows]
    assert max(largest) <= max_lag
    if slow == "the learner":  # then the thread is as far ahead as it may be
        assert largest == [min(n, max_lag) for n in range(12)]
    assert all(0 <= row["lag"] <= row["largest_lag"] for row in training.curve.rows)


def test_stamps_name_the_weights_that_acted(make):
    training = make(max_lag=2, refreshes=2)
    published = {}
    publish, prepare = training.actors.publish, training._prepare

    def note_published(version):
        publish(version)
        published[version] = training.actors.published[1]

    def check(batch):
        for step in (0, 15, 16, 31):
            actor = training.actors.actors[0].collector.policy
            weights = published[int(batch["next", "policy_version"][0, step])]
            values, state = weights.split([one.numel() for one in actor.parameters()]), {}
            for (name, one), value in zip(actor.named_parameters(), values, strict=True):
                state[name] = value.view_as(one)
            with torch.no_grad():
                again = torch.func.functional_call(training.actor, state, (batch[:, step].clone(),))
                expected = training.actor.build_dist_from_params(again).log_prob(batch["action"][:, step])
            torch.testing.assert_close(batch["action_log_prob"][:, step], expected)
        prepare(batch)

    training.actors.publish, training._prepare = note_published, check
    finish(training)
    assert list(published) == list(range(8))


# ---- what it learns


def test_without_lag_equal_seeds_give_equal_weights(make):
    settings = {"max_lag": 0, "refreshes": 2}
    one = finish(make(**settings))
    torch.rand(3)
    assert torch.equal(one, finish(make(**settings)))
    assert not torch.equal(one, finish(make(**settings, seed=1)))


def test_double_buffering_and_threads_keep_all_steps(make):
    training = make(max_lag=1, double_buffered=True, total_frames=2048)
    steps = []
    prepare = training._prepare
    training._prepare = lambda batch: (steps.append(batch.clone()), prepare(batch))[1]
    finish(training)
    batches = torch.cat(steps, 1)
    going_on = ~batches["next", "done"][:, :-1, 0]
    after, following = batches["next", "observation"][:, :-1], batches["observation"][:, 1:]
    assert torch.equal(after[going_on], following[going_on])


def test_a_training_without_lag_goes_on_bit_for_bit(make, tmp_path):
    settings = {"task": "InvertedPendulum-v5", "normalize_observations": True, "normalize_rewards": True}
    settings |= {"entropy_coef": 0.0, "max_lag": 0}
    whole = finish(make(**settings))
    first = make(**settings)
    for _ in range(3):
        first.iterate()
    save_checkpoint(tmp_path / "checkpoint.pt", first.state_dict())
    torch.rand(5)
    second = make(**settings)
    second.load_state_dict(torch.load(tmp_path / "checkpoint.pt", weights_only=True))
    assert torch.equal(whole, finish(second))


def test_a_training_with_lag_can_go_on(make):
    first = make(max_lag=2)
    for _ in range(3):
        first.iterate()
    state = first.state_dict()
    second = make(max_lag=2)
    second.load_state_dict(state)
    assert torch.equal(second.actors.weights(), first.actors.weights())
    finish(first)  # the one that was saved goes on, too
    finish(second)
    assert max(row["largest_lag"] for row in second.curve.rows) <= 2
    assert [row["frames"] for row in second.curve.rows] == [128 * (n + 1) for n in range(8)]


def test_it_learns_to_balance_a_pole(tmp_path):
    arguments = ["--quiet", "--output", str(tmp_path), "--total-frames", "32000", "--evaluate", "20"]
    assert PROGRAM.main(arguments) == 0
    folder = tmp_path / "appo-CartPole-v1-0"
    assert json.loads((folder / "evaluation.json").read_text())["mean"] > 100
    with (folder / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert float(rows[0]["return"]) < 40
    assert {row["largest_lag"] for row in rows[1:]} == {"1"}
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_v_trace_is_torchrls(make):
    training = make(max_lag=0)
    batch = training.actors.next(0)
    with torch.no_grad():
        for one in training.actor.parameters():
            one.add_(0.1 * torch.randn_like(one))
        # VTrace itself asks for the probability of another action than the one that was taken.
        log_prob = training.actor.get_dist(batch).log_prob(batch["action"]).unsqueeze(-1)
        critic = training.advantage.value_network
        values = critic(batch.clone())["state_value"], critic(batch["next"].clone())["state_value"]
        flags = [batch["next", key] for key in ("reward", "done", "terminated")]
        before = batch["action_log_prob"].unsqueeze(-1)
        advantage, target = vtrace_advantage_estimate(
            training.config.gamma, log_prob, before, *values, *flags
        )
    found = estimate_vtrace(training.vtrace, batch.clone())
    torch.testing.assert_close(found["advantage"], advantage, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found["value_target"], target, rtol=1e-4, atol=1e-4)
    assert batch["next", "done"].any()
    gaes = estimate_advantages(training.advantage, batch.clone())
    assert not torch.allclose(found["advantage"], gaes["advantage"])


# ---- settings


@pytest.mark.parametrize(
    ("preset", "task"),
    [("classic", "CartPole-v1"), ("sf-mujoco", "HalfCheetah-v5"), ("sf-atari", "ALE/Pong-v5")],
)
def test_presets_make_trainings(preset, task, make):
    small = {"num_envs": 2, "frames_per_batch": 16, "minibatch_size": 8, "epochs": 1, "total_frames": 32}
    training = make(**{**preset_values(Config, PROGRAM.presets[preset]), **small, "task": task})
    assert training.actors.actors[0].collector.writes_once
    finish(training)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-lag", "-1"], "--max-lag: expected at least 0, got -1"),
        (["--refreshes", "3"], "--refreshes: expected a divisor of 64 steps, got 3"),
        (["--mutation-rate", "2"], "--mutation-rate: expected at least 0 and at most 1, got 2.0"),
        (["--population", "0"], "--population: expected at least 1, got 0"),
    ],
)
def test_wrong_options(arguments, message, capsys):
    with pytest.raises(SystemExit) as exit_info:
        PROGRAM.main(arguments)
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err
