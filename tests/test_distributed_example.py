"""Actors in processes of Ray: they get today's weights, and one that is killed comes back."""

import os

import pytest
import torch
from waiting import killed

pytest.importorskip("ray", reason="needs Ray: pip install 'torchrl_pool[ray]'")
pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

import ray

from torchrl_pool.examples.distributed_ppo import PROGRAM, DistributedPPOTraining

SMALL = ["--num-envs", "8", "--frames-per-batch", "256", "--minibatch-size", "64", "--epochs", "1"]


@pytest.fixture
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=10**8)
    yield
    ray.shutdown()


def pid_of(actor):
    return ray.get(actor._host.__ray_call__.remote(lambda self: os.getpid()))


def assert_chosen_by(training, batch):
    log_prob = training.actor.log_prob(batch.select("observation", "action"))
    torch.testing.assert_close(log_prob, batch["action_log_prob"], rtol=0, atol=1e-5)


def test_a_killed_worker_comes_back_and_gets_the_weights_of_the_day(tmp_path, cluster):
    config = PROGRAM.config_of(PROGRAM.parser().parse_args([*SMALL, "--total-frames", "1024"]))
    training = DistributedPPOTraining(config, tmp_path)
    try:
        first = training.actors.next(0)
        assert first.shape == (8, 32)
        assert first["observation"][:, 0].unique(dim=0).shape[0] == 8  # no two envs have one seed
        training.iterate()
        actor = training.actors.actors[0]
        before = pid_of(actor)
        killed(before)
        with torch.no_grad():
            batch = training.actors.next(1)
            assert_chosen_by(training, batch)
        assert batch.shape == (8, 32)
        assert pid_of(actor) != before
        training.iterate()
        assert training.frames == 512
    finally:
        training.close()


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
