"""Actors in processes of Ray: they get today's weights, and one that dies or freezes goes on elsewhere."""

import copy
import os
import signal
import socket
import sys
import time
from contextlib import closing

import pytest
import torch
from cases import cases
from torch.utils._pytree import tree_leaves
from waiting import eventually, killed, parent_of

pytest.importorskip("ray", reason="needs Ray: pip install 'torchrl_pool[ray]'")
pytest.importorskip("tyro")

import ray
from ray import cloudpickle

from torchrl_pool.examples import distributed_impala
from torchrl_pool.examples.distributed_ppo import PROGRAM
from torchrl_pool.examples.remote import ONE_PROCESS, Host, RemoteActor
from torchrl_pool.examples.run import Run

SMALL = ["--num-envs", "8", "--frames-per-batch", "256", "--minibatch-size", "64", "--epochs", "1"]
IMPALA = ["--num-envs", "8", "--steps", "8"]
PATIENCE = ["--patience", "300"]  # on a slow machine


@pytest.fixture(scope="module")
def cluster():
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # its processes cannot import tests
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=10**8,
        _system_config={"worker_niceness": 0},  # else they starve beside other tests
    )
    yield
    ray.shutdown()
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def pid_of(actor):
    return ray.get(actor._host.__ray_call__.remote(lambda self: os.getpid()))


def answers(actor):
    try:
        return bool(pid_of(actor))
    except ray.exceptions.RayActorError:
        return False


def config_of(program, *options):
    return program.parse([*options, *PATIENCE])[1]


def learned(training):
    """All that a training has come to, but for the times it took."""
    learned = [one for one in tree_leaves(training.networks()) if torch.is_tensor(one)]
    rows = [
        {name: row[name] for name in row.keys() - {"seconds", "steps_per_second", "collecting_seconds"}}
        for row in training.curve.rows
    ]
    return learned, rows


def assert_same(found, expected):
    assert len(found[0]) == len(expected[0])
    assert all(torch.equal(*pair) for pair in zip(found[0], expected[0], strict=True))
    assert [*map(str, found[1])] == [*map(str, expected[1])]  # a mean return may be NaN


@pytest.mark.slow  # trains in several processes
@pytest.mark.parametrize(
    ("program", "options", "lag"), [(distributed_impala.PROGRAM, IMPALA, 1), (PROGRAM, SMALL, 0)]
)
def test_a_training_goes_on_bit_for_bit_in_the_same_process_and_in_another(
    program, options, lag, tmp_path, cluster
):
    config = config_of(program, *options, "--actors", "1", "--total-frames", "4096")

    def ends_of(training):
        """What three more iterations lead to."""
        for _ in range(3):
            training.iterate()
        assert training.parts["actors"].lag_row == {"lag": lag, "largest_lag": lag}
        return learned(training)

    with closing(Run(program.train, config, tmp_path)) as training:
        for _ in range(4):
            training.iterate()
        state = copy.deepcopy(training.state_dict())
        expected = ends_of(training)
        for _ in range(2):  # with batches of other numbers begun, and with the same ones
            training.load_state_dict(copy.deepcopy(state))
            assert_same(ends_of(training), expected)
    with closing(Run(program.train, config, tmp_path)) as training:
        training.load_state_dict(state)
        assert_same(ends_of(training), expected)


@pytest.mark.slow  # waits for processes that freeze
@pytest.mark.parametrize(
    ("program", "options", "lag"), [(distributed_impala.PROGRAM, IMPALA, 1), (PROGRAM, SMALL, 0)]
)
def test_processes_that_freeze_or_die_change_no_weight(program, options, lag, tmp_path, cluster, capsys):
    noticed = lag + 1  # iterations until a batch is missed, the next ones may be there already
    config = config_of(program, *options, "--silence", "3", "--total-frames", "4096")
    with closing(Run(program.train, config, tmp_path)) as training:
        actor, other = training.parts["actors"].actors
        state = copy.deepcopy(training.state_dict())
        first = training.parts["actors"].next(0)
        assert first["observation"][:, 0].unique(dim=0).shape[0] == 8  # no two envs have one seed
        training.load_state_dict(copy.deepcopy(state))
        for _ in range(1 + 2 * noticed + 2):
            training.iterate()
        expected = learned(training)
        training.load_state_dict(state)
        training.iterate()
        ended = [pid_of(actor)]
        os.kill(ended[0], signal.SIGSTOP)  # as it collects, or before it is asked
        for _ in range(noticed):
            training.iterate()
        assert "actor 0 has shown no sign of life for 3 s (--silence)" in told_of("actor 0", capsys)
        ended.append(pid_of(actor))
        killed(ended[1])
        for _ in range(noticed):
            training.iterate()
        told_of("actor 0", capsys)
        ended.append(pid_of(other))
        killed(ended[2])
        eventually(lambda: answers(other), 100)  # Ray has replaced it before it is called
        for _ in range(2):
            training.iterate()
        told_of("actor 1", capsys)
        assert_same(learned(training), expected)
        ended += [pid_of(actor), pid_of(other)]
        os.kill(ended[3], signal.SIGSTOP)
    eventually(lambda: not any(map(parent_of, ended)), 100)


def told_of(name, capsys):
    told = capsys.readouterr().err
    assert f"{name} is lost; expected back within 300 s (--patience)" in told
    assert f"{name} is back, on " in told
    assert "begins new episodes" not in told
    return told


@pytest.mark.slow  # waits for slow processes
def test_slow_batches_are_no_silence_and_actors_without_a_state_begin_anew(cluster, capsys):
    with closing(RemoteActor("actor 7", Slow, silence=0.4, patience=300)) as actor:
        assert actor.collect(0, torch.zeros(1)) == 1
        assert not capsys.readouterr().err
        killed(pid_of(actor))
        assert actor.collect(0, torch.zeros(1)) == 1
        assert "it begins new episodes" in capsys.readouterr().err
        with pytest.raises(NotImplementedError, match="this task"):
            actor.state_dict()


def test_an_actor_that_finds_no_room_ends_the_training_with_a_sentence(cluster, monkeypatch):
    monkeypatch.setitem(ONE_PROCESS, "num_cpus", 3)  # of two
    with (
        closing(RemoteActor("actor 0", Slow, silence=60, patience=1)) as actor,
        pytest.raises(ConnectionError, match=r"actor 0 was not there for 1 s \(--patience\), the cluster"),
    ):
        actor.collect(0, torch.zeros(1))


def test_a_cluster_that_is_not_there_is_told_at_once(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # nor the one of the other tests
    with socket.socket() as nobody:  # listens
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(SystemExit):
            PROGRAM.main([*SMALL, "--address", address, "--output", str(tmp_path)])
    assert (
        f"--address: expected the head of a Ray cluster, {address} does not answer" in capsys.readouterr().err
    )


class Slow:
    """An actor whose batches are numbers, and take longer than it may be silent."""

    def __init__(self):
        self.batches = 0

    def collect(self, version, weights):
        time.sleep(1)
        self.batches += 1
        return self.batches

    def state_dict(self):
        raise NotImplementedError("this task cannot be saved")


class Counting:
    """An actor whose batches are numbers."""

    def __init__(self):
        self.state = 0

    def collect(self, version, weights):
        self.state += 1
        return self.state

    def state_dict(self):
        return {"count": self.state}

    def load_state_dict(self, state):
        self.state = state["count"]


def test_an_answer_is_given_again_but_not_after_another_state():
    def collected(*numbers):
        return [host.collect(number, 0, None) for number in numbers]

    host = Host(Counting)
    assert host.begin({"count": 5})[1]
    assert not host.begin({"count": 7})[1]
    assert collected(0, 0, 1, 1) == [(6, {"count": 6})] * 2 + [(7, {"count": 7})] * 2
    host.load_state_dict({"count": 10})
    assert [batch for batch, _ in collected(1, 1, 2)] == [11, 11, 12]


@pytest.mark.parametrize(
    ("given", "message"),
    cases(
        default=[
            (["--actors", "3"], "--num-envs: expected a multiple of 3 actors, got 8"),
            (["--actors", "0"], "--actors: expected at least 1"),
        ],
        also=[(["--normalize-observations"], "--normalize-observations")],
    ),
)
def test_settings_that_cannot_be_are_refused(given, message, capsys):
    with pytest.raises(SystemExit):
        PROGRAM.main([*SMALL, *given])
    assert message in capsys.readouterr().err
