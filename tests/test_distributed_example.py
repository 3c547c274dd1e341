"""Actors in processes of Ray: they get today's weights, and one that is killed comes back."""

import copy
import os
from contextlib import closing

import pytest
import torch
from waiting import eventually, killed

pytest.importorskip("ray", reason="needs Ray: pip install 'torchrl_pool[ray]'")
pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

import ray

from torchrl_pool.examples import distributed_impala
from torchrl_pool.examples.distributed_ppo import PROGRAM, DistributedPPOTraining
from torchrl_pool.examples.remote import Host

SMALL = ["--num-envs", "8", "--frames-per-batch", "256", "--minibatch-size", "64", "--epochs", "1"]
PATIENCE = ["--patience", "300"]  # on a slow machine


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=10**8)
    yield
    ray.shutdown()


def pid_of(actor):
    return ray.get(actor._host.__ray_call__.remote(lambda self: os.getpid()))


def assert_chosen_by(training, batch):
    log_prob = training.actor.log_prob(batch.select("observation", "action"))
    torch.testing.assert_close(log_prob, batch["action_log_prob"], rtol=0, atol=1e-5)


def test_a_killed_worker_comes_back_and_gets_the_weights_of_the_day(tmp_path, cluster, capsys):
    config = PROGRAM.config_of(PROGRAM.parser().parse_args([*SMALL, *PATIENCE, "--total-frames", "1024"]))
    training = DistributedPPOTraining(config, tmp_path)
    try:
        first = training.actors.next(0)
        assert first.shape == (8, 32)
        assert first["observation"][:, 0].unique(dim=0).shape[0] == 8  # no two envs have one seed
        training.iterate()
        actor, other = training.actors.actors
        before = pid_of(actor)
        killed(before)
        with torch.no_grad():
            batch = training.actors.next(1)
            assert_chosen_by(training, batch)
        assert batch.shape == (8, 32)
        assert pid_of(actor) != before
        assert told_of("actor 0", capsys)
        killed(pid_of(other))
        eventually(lambda: answers(other), 100)  # Ray has replaced it before it is called
        training.iterate()
        assert told_of("actor 1", capsys)
        assert training.frames == 512
    finally:
        training.close()


def told_of(name, capsys):
    told = capsys.readouterr().err
    lost, back = f"{name} is lost; expected back within 300 s (--patience)", f"{name} is back, on "
    return lost in told and back in told and "; it begins new episodes" in told


def answers(actor):
    try:
        return bool(pid_of(actor))
    except ray.exceptions.RayActorError:
        return False


def test_a_training_goes_on_bit_for_bit_in_the_same_process_and_in_another(tmp_path, cluster):
    program, frames = distributed_impala.PROGRAM, ["--actors", "1", "--num-envs", "8", "--steps", "8"]
    config = program.config_of(program.parser().parse_args([*frames, *PATIENCE, "--total-frames", "4096"]))

    def ends_of(training):
        """What three more iterations lead to."""
        for _ in range(3):
            training.iterate()
        return training.actors.weights(), training.curve.rows[-1]["return"], training.actors.lag_row

    with closing(distributed_impala.DistributedIMPALATraining(config, tmp_path)) as training:
        for _ in range(4):
            training.iterate()
        state = copy.deepcopy(training.state_dict())
        expected = ends_of(training)
        for _ in range(2):  # with batches of other numbers begun, and with the same ones
            training.load_state_dict(copy.deepcopy(state))
            assert_same(ends_of(training), expected)
    with closing(distributed_impala.DistributedIMPALATraining(config, tmp_path)) as training:
        training.load_state_dict(state)
        assert_same(ends_of(training), expected)


def assert_same(found, expected):
    assert torch.equal(found[0], expected[0])
    assert found[1:] == expected[1:]
    assert found[2] == {"lag": 1.0, "largest_lag": 1}


class Counting:
    """An actor whose batches are numbers."""

    def __init__(self):
        self.state = 0

    def collect(self, version, weights):
        self.state += 1
        return self.state

    def load_state_dict(self, state):
        self.state = state


def test_an_answer_is_given_again_but_not_after_another_state():
    host = Host(Counting)
    assert host.begin()[1]
    assert [host.collect(number, 0, None) for number in (0, 0, 1, 1)] == [1, 1, 2, 2]
    host.load_state_dict(10)
    assert [host.collect(number, 0, None) for number in (1, 1, 2)] == [11, 11, 12]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--actors", "3"], "--num-envs: expected a multiple of 3 actors, got 8"),
        (["--actors", "0"], "--actors: expected at least 1"),
        (["--normalize-observations"], "--normalize-observations"),
    ],
)
def test_settings_that_cannot_be_are_refused(given, message, capsys):
    with pytest.raises(SystemExit):
        PROGRAM.main([*SMALL, *given])
    assert message in capsys.readouterr().err
