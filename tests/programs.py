"""Small trainings of each program: begun, saved, gone on with, compared."""

import csv

import pytest
import torch
from torch.utils._pytree import tree_flatten_with_path

pytest.importorskip("tyro")

from torchrl_pool.examples import appo, dqn, impala, ppo, sac, self_play
from torchrl_pool.examples.results import save_checkpoint
from torchrl_pool.examples.run import Run

BATCHES = "--frames-per-batch 128 --minibatch-size 32 --epochs 2 --num-envs 4"
REPLAY = "--learning-starts 40 --batch-size 16 --hidden 16,16 --frames-per-row 48 --buffer-size 120"
PROGRAMS = {
    "ppo": (ppo.PROGRAM, BATCHES, 512),
    "appo": (appo.PROGRAM, f"{BATCHES} --max-lag 0 --refreshes 2", 512),
    "impala": (impala.PROGRAM, "--steps 8 --minibatches 2 --num-envs 4", 128),
    "dqn": (dqn.PROGRAM, f"{REPLAY} --frames-per-batch 4 --num-envs 2 --target-every 3", 192),
    "sac": (sac.PROGRAM, f"{REPLAY} --task InvertedPendulum-v5", 192),
    "self_play": (self_play.PROGRAM, f"{BATCHES} --snapshot-every 1 --test-every 2", 512),
}
"""By name: the program, options of a small training, and frames that are some iterations."""
TIMES = {"seconds", "steps_per_second", "collecting_seconds"}


def small(name, *more):
    """A program, and the options of a small training; several may be one text."""
    program, options, frames = PROGRAMS[name]
    program.prepare()
    return program, " ".join([options, f"--total-frames {frames}", *more]).split()


def config_of(program, *options):
    return program.parse(options)[1]


class Trainings:
    """Begins small trainings by the name of their program, each in a folder of its own."""

    def __init__(self, folder):
        self.folder, self.begun = folder, []

    def begin(self, name, *more):
        program, options = small(name, *more)
        torch.set_num_threads(1)
        folder = self.folder / str(len(self.begun))
        self.begun.append(Run(program.train, config_of(program, *options), folder))
        return self.begun[-1]

    def close(self):
        for one in self.begun:
            one.close()


def finish(run):
    """All that a training has come to."""
    while not run.is_over:
        run.iterate()
    return run.state_dict()


def through_a_file(state, folder):
    save_checkpoint(folder / "checkpoint.pt", state)
    return torch.load(folder / "checkpoint.pt", weights_only=True)


def assert_same(one, other):
    """Weights, curves, buffers and random streams, bit for bit, but for the times that it took."""
    (found, expected) = (comparable(state) for state in (one, other))
    assert found.keys() == expected.keys()
    for path, leaf in expected.items():
        same = torch.equal(found[path], leaf) if torch.is_tensor(leaf) else repr(found[path]) == repr(leaf)
        assert same, path


def comparable(state):
    leaves, _ = tree_flatten_with_path({key: one for key, one in state.items() if key != "actors"})
    named = {
        "/".join(str(getattr(key, "key", getattr(key, "idx", ""))) for key in path): leaf
        for path, leaf in leaves
    }
    return {
        path: leaf
        for path, leaf in named.items()
        if path.rpartition("/")[2] not in TIMES and "actors" not in path
    }


def weights_of(run):
    return run.parts["update"].state_dict()["parameters"]


def curve_in(folder):
    with (folder / "curve.csv").open() as file:
        return list(csv.DictReader(file))
