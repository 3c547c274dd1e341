"""The command lines of the training programs: what cannot be is refused at once, and leaves nothing."""

import pytest
import torch

pytest.importorskip("matplotlib")

from torchrl_pool.examples import appo, dqn, impala, ppo, sac
from torchrl_pool.examples.training_run import Clock, save_checkpoint

SMALL = ["--quiet", "--evaluate", "0", "--num-envs", "2"]
PPO = [*SMALL, "--frames-per-batch", "16", "--minibatch-size", "8", "--epochs", "1", "--total-frames", "32"]
SAC = [*SMALL, "--frames-per-batch", "2", "--learning-starts", "4", "--batch-size", "4"]
SAC += ["--task", "Pendulum-v1", "--frames-per-row", "16", "--total-frames", "16", "--hidden", "8"]


def refusal(program, arguments, capsys):
    with pytest.raises(SystemExit) as exit_info:
        program.main(arguments)
    assert exit_info.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "arguments", "message"),
    [
        (ppo, ["--evaluate", "-1"], "--evaluate: expected at least 0, got -1"),
        (ppo, ["--torch-threads", "-1"], "--torch-threads: expected at least 0, got -1"),
        (ppo, ["--hidden", "abc"], "--hidden: expected numbers of units such as 64,64, got 'abc'"),
        (ppo, ["--hidden", ""], "--hidden: expected numbers of units"),
        (impala, ["--hidden", "64,0"], "--hidden: expected numbers of units"),
        (dqn, ["--hidden", "64,,64"], "--hidden: expected numbers of units"),
        (ppo, ["--learning-rate", "-1"], "--learning-rate: expected at least 0, got -1.0"),
        (ppo, ["--learning-rate", "nan"], "--learning-rate: expected at least 0, got nan"),
        (ppo, ["--gamma", "1.5"], "--gamma: expected at least 0 and at most 1, got 1.5"),
        (sac, ["--tau", "0"], "--tau: expected more than 0 and at most 1, got 0.0"),
        (dqn, ["--priority-alpha", "-1"], "--priority-alpha: expected at least 0, got -1.0"),
        (ppo, ["--seeds", "1", "-1"], "--seed: expected at least 0, got -1"),
        (dqn, ["--total-frames", "100"], "--learning-starts: expected less than the 100 of --total-frames"),
        (dqn, ["--task", "Pendulum-v1"], "--task: expected one with discrete actions, got Pendulum-v1"),
        (sac, ["--task", "CartPole-v1"], "--task: expected one with continuous actions, got CartPole-v1"),
        (ppo, ["--task", "ALE/Pong-v5", "--sticky-actions", "2"], "--sticky-actions: expected at least 0"),
        (impala, ["--compile", "yes"], "--compile: expected auto or no"),
        (appo, ["--recurrent", "lstm", "--compile", "yes"], "--compile: expected auto or no"),
    ],
)
def test_what_cannot_be_is_refused(program, arguments, message, tmp_path, capsys):
    output = tmp_path / "runs"
    assert message in refusal(program.PROGRAM, [*arguments, "--output", str(output)], capsys)
    assert not output.exists()


@pytest.mark.parametrize("option", ["--output", "--timings"])
def test_where_nothing_can_be_written(option, tmp_path, capsys):
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "below"
    arguments = [*PPO, "--output", str(tmp_path / "runs"), option, str(place)]
    assert "file" in refusal(ppo.PROGRAM, arguments, capsys)


def test_what_is_no_checkpoint_of_the_program(tmp_path, capsys):
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(b"no checkpoint")
    assert "torch.load cannot read" in refusal(ppo.PROGRAM, ["--resume", str(path)], capsys)
    torch.save(torch.zeros(3), path)
    assert "holds something else" in refusal(ppo.PROGRAM, ["--resume", str(path)], capsys)
    save_checkpoint(path, {"config": {"task": "CartPole-v1"}})
    assert "expected a checkpoint of ppo" in refusal(ppo.PROGRAM, ["--resume", str(path)], capsys)


def test_what_a_checkpoint_cannot_go_on_with(tmp_path, capsys):
    assert ppo.PROGRAM.main([*PPO, "--output", str(tmp_path)]) == 0
    resume = ["--quiet", "--resume", str(tmp_path / "ppo-CartPole-v1-0" / "checkpoint.pt")]
    for changed in (["--hidden", "8"], ["--num-envs", "4"], ["--task", "Acrobot-v1"]):
        assert "--resume: expected settings that" in refusal(ppo.PROGRAM, [*resume, *changed], capsys)


@pytest.mark.parametrize(("size", "goes_on"), [("16", True), ("32", True), ("12", False)])
def test_a_buffer_goes_on_where_it_has_room(size, goes_on, tmp_path, capsys):
    assert sac.PROGRAM.main([*SAC, "--buffer-size", "24", "--output", str(tmp_path)]) == 0
    path = tmp_path / "sac-Pendulum-v1-0" / "checkpoint.pt"
    resume = [*SMALL, "--resume", str(path), "--total-frames", "32", "--buffer-size", size]
    if goes_on:
        assert sac.PROGRAM.main(resume) == 0
    else:
        assert "--buffer-size: expected 16, as the buffer was, got 12" in refusal(sac.PROGRAM, resume, capsys)


def test_random_steps_are_whole_rounds(tmp_path, recwarn):
    """TorchRL's collectors warn where they are not."""
    assert sac.PROGRAM.main([*SAC, "--learning-starts", "3", "--output", str(tmp_path)]) == 0
    assert not [one for one in recwarn if "init_random_frames" in str(one.message)]


def test_one_iteration_has_no_times():
    clock = Clock()
    with clock.timed("env_step"):
        pass
    clock.end_iteration()
    clock.add("env_step", 1.0)  # actors that go on beside the learner
    assert "not told" in clock.summary()


def test_what_was_not_timed_is_not_shown():
    clock = Clock()
    clock.end_iteration()
    clock.add("collecting", 1.0)
    clock.end_iteration()
    assert "env steps" not in clock.summary()
    clock.add("env_step", 0.5)
    assert "env steps" in clock.summary()
