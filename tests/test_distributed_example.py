"""The distributed PPO example: workers get today's weights, and one that is killed comes back."""

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


def ask(worker, function):
    return ray.get(worker.__ray_call__.remote(lambda self: function()))


def pid_of(worker):
    return ask(worker, os.getpid)


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
        seeds = [ask(worker, torch.initial_seed) for worker in training.actors.collector.remote_collectors]
        assert seeds == [0, 4]
        training.iterate()
        worker = training.actors.collector.remote_collectors[0]
        before = pid_of(worker)
        killed(before)
        with torch.no_grad():
            batch = training.actors.next(0)
            assert_chosen_by(training, batch)
        assert batch.shape == (8, 32)
        assert pid_of(worker) != before
        training.iterate()
        assert training.frames == 512
    finally:
        training.close()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--workers", "3"], "--num-envs: expected a multiple of the 3 workers, got 8"),
        (["--workers", "0"], "--workers: expected at least 1"),
        (["--normalize-observations"], "expected no statistics of observations"),
    ],
)
def test_settings_that_cannot_be_are_refused(given, message, capsys):
    with pytest.raises(SystemExit):
        PROGRAM.main([*SMALL, *given])
    assert message in capsys.readouterr().err
