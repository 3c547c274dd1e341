"""What the tests of programs with a replay buffer share."""

import csv
import time

import torch

from torchrl_pool.examples.results import save_checkpoint


def parsed(program, *arguments):
    return program.config_of(program.parser().parse_args(list(arguments)))


def trained(make, config, folder, *, stop_after=None):
    """The state at the end of a training; it may be stopped, saved, and gone on with."""
    folder.mkdir(parents=True, exist_ok=True)
    training = make(config, folder)
    while not training.is_over:
        if training.iteration == stop_after:
            save_checkpoint(folder / "checkpoint.pt", training.state_dict())
            training.close()
            torch.rand(5)  # the states of generators come from the checkpoint
            training = make(config, folder)
            training.load_state_dict(torch.load(folder / "checkpoint.pt", weights_only=True))
        training.iterate()
    state = training.state_dict()
    training.close()
    return state


def assert_equal_trainings(one, other):
    for key in ("parameters", "targets"):
        assert torch.equal(one["update"][key], other["update"][key])
    for key in one["replay"]["rows"]:
        if key != "next":
            assert torch.equal(one["replay"]["rows"][key], other["replay"]["rows"][key])
    clock = {"seconds", "steps_per_second"}
    rows = [
        [{k: repr(v) for k, v in row.items() if k not in clock} for row in state["curve"]["rows"]]
        for state in (one, other)
    ]
    assert rows[0] == rows[1]


def slow(function, seconds):
    def after_a_while(*args, **kwargs):
        time.sleep(seconds)
        return function(*args, **kwargs)

    return after_a_while


def curve_in(folder):
    with (folder / "curve.csv").open() as file:
        return list(csv.DictReader(file))
