"""Actors on machines that are really apart: delays, losses, links that are cut, hosts that die."""

import csv
import signal
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_flatten

pytest.importorskip("ray", reason="needs Ray: pip install 'torchrl_pool[ray]'")
pytest.importorskip("tyro")
sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))

from hosts.namespaces import NoNamespaces
from hosts.ray_nodes import RayHosts

from torchrl_pool.examples import impala
from torchrl_pool.examples.results import load_checkpoint

pytestmark = pytest.mark.slow  # waits for hosts that are lost
QUIET = ["--task", "CartPole-v1", "--quiet", "--evaluate", "0"]
TIMES = {"seconds", "steps_per_second", "collecting_seconds"}
SECONDS = 300.0  # that anything may take on a slow machine


@pytest.fixture
def hosts():
    try:
        with RayHosts(3) as hosts:
            yield hosts
    except NoNamespaces as error:
        pytest.skip(str(error))


class Learner:
    """A training on the head."""

    def __init__(self, hosts, folder, program, *options):
        self.folder, self.output = folder, folder / "output.txt"
        folder.mkdir(exist_ok=True)
        self.process = hosts.learner(program, *QUIET, *options, "--output", str(folder), output=self.output)

    def rows(self):
        """Of the curve, without the last one, which may not be whole yet."""
        found = list(self.folder.glob("*/curve.csv"))
        if not found:
            return []
        with found[0].open() as file:
            return list(csv.DictReader(file))[: None if self.process.poll() is not None else -1]

    def makes(self, batches):
        """Waits for so many more batches."""
        end, wanted = time.monotonic() + SECONDS, len(self.rows()) + batches
        while len(self.rows()) < wanted:
            assert self.process.poll() is None, self.told()
            assert time.monotonic() < end, self.told()
            time.sleep(0.05)

    def ends(self, status=0):
        assert self.process.wait(SECONDS) == status, self.told()
        return self.told()

    def told(self):
        """What was printed, but for Ray's own lines."""
        text = self.output.read_text()
        assert "Traceback" not in text, text
        return text


def figures(rows):
    return [{name: one[name] for name in one.keys() - TIMES} for one in rows]


def learned(folder):
    """Weights and the optimizer's state of the checkpoint in a folder."""
    (path,) = folder.glob("*/checkpoint.pt")
    return tree_flatten(load_checkpoint(path)["update"])


def assert_same(learner, folder):
    """Compares a training that has ended with one that was not disturbed."""
    (found, names), (expected, expected_names) = learned(learner.folder), learned(folder)
    assert names == expected_names
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True) if torch.is_tensor(pair[0]))
    with next(folder.glob("*/curve.csv")).open() as file:
        assert figures(learner.rows()) == figures(csv.DictReader(file))


def test_a_disturbed_network_changes_no_weight(hosts, tmp_path):
    frames = ["--total-frames", "50000"]
    hosts.set_link(0, delay=0.025, loss=0.01)
    learner = Learner(hosts, tmp_path / "apart", "distributed_impala", *frames)
    for worker, seconds in ((1, 2.0), (2, 4.0)):
        learner.makes(10)
        hosts.set_link(worker, cut=True)
        time.sleep(seconds)  # less than Ray takes to give up the node
        hosts.set_link(worker)
    assert "is lost" not in learner.ends()
    here = tmp_path / "here"
    assert impala.PROGRAM.main([*QUIET, *frames, "--actors", "2", "--output", str(here)]) == 0
    assert_same(learner, here)
    lags = [(row["lag"], row["largest_lag"]) for row in learner.rows()]
    assert lags == [("0.0", "0")] + [("1.0", "1")] * (len(lags) - 1)


def test_hosts_that_are_lost_and_come_back_change_no_weight(hosts, tmp_path):
    frames = ["--total-frames", "100000"]
    learner = Learner(hosts, tmp_path / "apart", "distributed_ppo", *frames)
    learner.makes(3)
    hosts.set_link(1, cut=True)
    learner.makes(8)  # both actors are on the other host
    told = learner.told()
    assert "is lost; expected back within 120 s" in told
    assert "is back, on 10.77.0.3" in told
    hosts.set_link(1)
    hosts.stop_processes(1)
    hosts.start_ray(1)
    hosts.stop_processes(2, signal.SIGSTOP)
    learner.makes(8)
    assert "is back, on 10.77.0.2" in learner.told()
    assert "new episodes" not in learner.ends()
    rows = learner.rows()
    assert [int(float(row["frames"])) for row in rows] == [2048 * (1 + i) for i in range(len(rows))]
    assert {row["largest_lag"] for row in rows} == {"0"}
    undisturbed = Learner(hosts, tmp_path / "undisturbed", "distributed_ppo", *frames)
    undisturbed.ends()
    assert_same(learner, undisturbed.folder)


@pytest.mark.parametrize("program", ["distributed_impala", "distributed_ppo"])
def test_what_stays_lost_ends_the_training_which_goes_on_later(hosts, tmp_path, program):
    options = ["--patience", "60", "--checkpoint-seconds", "0", "--total-frames", "1000000"]
    learner = Learner(hosts, tmp_path / "apart", program, *options)
    learner.makes(5)
    for worker in (1, 2):
        hosts.stop_processes(worker)
    told = learner.ends(status=1)
    assert "the training ends here: actor" in told
    assert "was not there for 60 s (--patience)" in told
    assert "go on with --resume" in told
    for worker in (1, 2):
        hosts.start_ray(worker)
    (checkpoint,) = learner.folder.glob("*/checkpoint.pt")
    before = len(learner.rows())
    again = Learner(hosts, learner.folder, program, "--resume", str(checkpoint), "--patience", "100")
    again.makes(before + 5)
    undisturbed = Learner(hosts, tmp_path / "undisturbed", program, "--total-frames", "1000000")
    undisturbed.makes(before + 5)
    for one in (again, undisturbed):
        hosts.send_signal(one.process, signal.SIGKILL)
        one.process.wait()
    found, expected = (figures(one.rows()[: before + 5]) for one in (again, undisturbed))
    assert found == expected  # some from the checkpoint, the others made since


def test_lag_is_bounded(hosts, tmp_path):
    hosts.set_link(1, delay=0.025)
    for architecture, possible in (("asynchronous", {1, 2}), ("synchronous", {0})):
        options = ["--architecture", architecture, "--total-frames", "30000"]
        learner = Learner(hosts, tmp_path / architecture, "distributed_impala", *options)
        learner.ends()
        assert max(int(row["largest_lag"]) for row in learner.rows()) in possible
