"""The command lines of the training programs: what cannot be is refused at once, and leaves nothing."""

import importlib.util
import json
import os
import signal
from contextlib import closing

import pytest
import torch

pytest.importorskip("matplotlib")

from torchrl_pool.examples import appo, dqn, impala, loggers, ppo, program, sac, self_play
from torchrl_pool.examples.envs import make_env, pool_of
from torchrl_pool.examples.results import Clock, Curve, load_checkpoint, save_checkpoint

SMALL = ["--quiet", "--evaluate", "0", "--num-envs", "2"]
PPO = [*SMALL, "--frames-per-batch", "16", "--minibatch-size", "8", "--epochs", "1", "--total-frames", "32"]
SAC = [*SMALL, "--frames-per-batch", "2", "--learning-starts", "4", "--batch-size", "4"]
SAC += ["--task", "Pendulum-v1", "--frames-per-row", "16", "--total-frames", "16", "--hidden", "8"]


def failing_with(error):
    def fail(*arguments):
        raise error

    return fail


def refusal(program, arguments, capsys):
    with pytest.raises(SystemExit) as exit_info:
        program.main(arguments)
    assert exit_info.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "arguments", "message"),
    [
        (ppo, ["--evaluate", "-1"], "--evaluate: expected at least 0, got -1"),
        (ppo, ["--torch-threads", "-1"], "--torch-threads: expected at least 0 and at most 1024, got -1"),
        (ppo, ["--hidden", "abc"], "--hidden: expected numbers of units such as 64,64, got 'abc'"),
        (ppo, ["--hidden", ""], "--hidden: expected numbers of units"),
        (impala, ["--hidden", "64,0"], "--hidden: expected numbers of units"),
        (dqn, ["--hidden", "64,,64"], "--hidden: expected numbers of units"),
        (ppo, ["--learning-rate", "-1"], "--learning-rate: expected at least 0, got -1.0"),
        (ppo, ["--learning-rate", "nan"], "--learning-rate: expected at least 0, got nan"),
        (ppo, ["--gamma", "1.5"], "--gamma: expected at least 0 and at most 1, got 1.5"),
        (sac, ["--tau", "0"], "--tau: expected more than 0 and at most 1, got 0.0"),
        (dqn, ["--priority-alpha", "-1"], "--priority-alpha: expected at least 0, got -1.0"),
        (ppo, ["--seeds", "1", "-1"], f"--seed: expected at least 0 and less than {1 << 62}, got -1"),
        (dqn, ["--total-frames", "100"], "--learning-starts: expected less than the 100 of --total-frames"),
        (dqn, ["--task", "Pendulum-v1"], "--task: expected one with discrete actions, got Pendulum-v1"),
        (sac, ["--task", "CartPole-v1"], "--task: expected one with continuous actions, got CartPole-v1"),
        (self_play, ["--task", "CartPole-v1"], "--task: expected one with an entry 'opponent_observation'"),
        (appo, ["--population", "4", "--total-frames", "3"], "--total-frames: expected some for each of 4"),
        (dqn, ["--epsilon-start", "0.01"], "--epsilon-end: expected at most the 0.01 of --epsilon-start"),
        (ppo, ["--clip-epsilon", "1.5"], "--clip-epsilon: expected more than 0 and less than 1, got 1.5"),
        (ppo, ["--seed", "9" * 20], "--seed: expected at least 0 and less than"),
        (ppo, ["--task", "ALE/Pong-v5", "--sticky-actions", "2"], "--sticky-actions: expected at least 0"),
        (impala, ["--sticky-actions", "0.5"], "--sticky-actions: expected a game of Atari's as --task"),
        (sac, ["--all-actions"], "--all-actions: expected a game of Atari's as --task, got 'HalfCheetah-v5'"),
        (ppo, ["--num-workers", "0"], "--num-workers: expected gymnasium:ID as --task, got 'CartPole-v1'"),
        (dqn, ["--caller-steps"], "--caller-steps: expected gymnasium:ID as --task, got 'CartPole-v1'"),
        (
            ppo,
            ["--task", "gymnasium:CartPole-v1", "--num-workers", "-1"],
            "--num-workers: expected at least 0",
        ),
        (ppo, ["--hidden-size", "32"], "--hidden-size: expected --recurrent other than none with it"),
        (appo, ["--mutation-rate", "0.5"], "--mutation-rate: expected --population other than 1 with it"),
        (dqn, ["--value-min", "-1"], "--value-min: expected --distributional with it"),
        (sac, ["--priority-beta", "1"], "--priority-beta: expected --priority-alpha other than 0.0"),
        (impala, ["--compile", "yes"], "--compile: expected auto or no"),
        (appo, ["--recurrent", "lstm", "--compile", "yes"], "--compile: expected auto or no"),
        (ppo, ["--until-return", "nan"], "--until-return: expected a number, got nan"),
        (ppo, ["--checkpoint-seconds", "nan"], "--checkpoint-seconds: expected a number, got nan"),
        (ppo, ["--torch-threads", "100000"], "--torch-threads: expected at least 0 and at most 1024, got"),
        (
            ppo,
            ["--minibatch-size", "1000000"],
            "--minibatch-size: expected at most the 2048 steps",
        ),
        (ppo, ["--lr", "0.1"], "unrecognized arguments: --lr 0.1 (did you mean --learning-rate?)"),
        (ppo, ["--num-env=3", "--learnin-rate=1"], "(did you mean --learning-rate?)"),
        (
            ppo,
            ["--preset", "cleanrl-atari"],
            "--episodic-life: expected a game of Atari's as --task, got 'CartPole-v1'",
        ),
        (ppo, ["--preset", "nothing"], "--preset: expected one of classic, cleanrl-classic"),
        (ppo, ["--resume", "x.pt", "--preset", "classic"], "--preset: expected none with --resume"),
        (ppo, ["--seed", "7", "--seeds", "1", "2"], "--seed: expected none with --seeds"),
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


def test_an_earlier_training_is_not_overwritten_unasked(tmp_path, capsys):
    arguments = [*PPO, "--output", str(tmp_path / "runs")]
    assert ppo.PROGRAM.main(arguments) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    (folder / "video.gif").touch()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    timings = tmp_path / "timings.json"
    timings.write_text("{}")
    more = ["--learning-rate", "0.5", "--timings", str(timings)]
    said = refusal(ppo.PROGRAM, [*arguments, *more], capsys)
    assert f"--resume {folder / 'checkpoint.pt'} goes on with it" in said
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert timings.read_text() == "{}"
    assert ppo.PROGRAM.main([*arguments, *more, "--overwrite"]) == 0
    assert not (folder / "video.gif").exists()
    assert json.loads((folder / "config.json").read_text())["learning_rate"] == 0.5
    resume = ["--resume", str(folder / "checkpoint.pt"), "--quiet", "--evaluate", "0", "--total-frames", "64"]
    assert ppo.PROGRAM.main([*resume, "--output", str(tmp_path / "runs")]) == 0  # in its own place
    assert load_checkpoint(folder / "checkpoint.pt")["iteration"] == 4


def test_no_command_removes_the_checkpoint_that_it_goes_on_from(tmp_path, capsys):
    runs = tmp_path / "runs"
    assert ppo.PROGRAM.main([*PPO, "--output", str(runs)]) == 0
    path = runs / "ppo-CartPole-v1-0" / "checkpoint.pt"
    link = tmp_path / "latest.pt"
    link.symlink_to(path)
    more = ["--quiet", "--evaluate", "0", "--output", str(runs), "--resume", str(link)]
    more[-1] = str(path.parent)
    assert ppo.PROGRAM.main([*more, "--total-frames", "48"]) == 0
    more[-1] = str(link)
    for frames, overwrite in ("64", ["--overwrite"]), ("96", []):
        assert ppo.PROGRAM.main([*more, "--total-frames", frames, *overwrite]) == 0
        assert load_checkpoint(path)["iteration"] == int(frames) // 16
    other = path.with_name("other.pt")
    other.write_bytes(path.read_bytes())
    said = refusal(ppo.PROGRAM, ["--quiet", "--resume", str(other)], capsys)
    assert "holds an earlier training" in said


def test_what_cannot_begin_overwrites_nothing(tmp_path, capsys, monkeypatch):
    arguments = [*PPO, "--output", str(tmp_path)]
    assert ppo.PROGRAM.main(arguments) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    monkeypatch.setattr(program, "check_video", failing_with(ValueError("no film")))
    assert "no film" in refusal(ppo.PROGRAM, [*arguments, "--overwrite", "--video"], capsys)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_presets_may_name_what_a_task_has_no_use_for():
    arguments = ["--preset", "cleanba-atari", "--task", "CartPole-v1"]
    (config,) = impala.PROGRAM.configs_of(impala.PROGRAM.parser().parse_args(arguments))
    assert config.sticky_actions > 0


@pytest.mark.parametrize(
    ("options", "num_workers", "has_helpers"),
    [
        ({"num_workers": 3}, 3, True),
        ({"num_workers": 1}, 1, True),
        ({"num_workers": 1, "caller_steps": True}, 1, True),
        ({"num_workers": 0}, 0, False),
    ],
)
def test_envs_of_gymnasium_live_where_they_are_told_to(options, num_workers, has_helpers):
    config = ppo.PROGRAM.config(task="gymnasium:CartPole-v1", **options)
    with closing(make_env(config, num_envs=4, seed=0)) as env:
        pool = pool_of(env)
        assert (pool.num_workers, pool._source.has_helpers) == (num_workers, has_helpers)


def test_weights_do_not_depend_on_where_envs_live(tmp_path):
    weights = []
    for count in "0", "1", "2":
        arguments = [*PPO, "--task", "gymnasium:CartPole-v1", "--num-workers", count]
        assert ppo.PROGRAM.main([*arguments, "--output", str(tmp_path / count)]) == 0
        (checkpoint,) = (tmp_path / count).glob("*/checkpoint.pt")
        weights.append(torch.load(checkpoint)["update"]["parameters"])
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2])


def test_a_request_to_stop_counts_while_the_last_checkpoint_is_written(tmp_path, monkeypatch):
    def save(path, state):
        save_checkpoint(path, state)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(program, "save_checkpoint", save)
    assert ppo.PROGRAM.main([*PPO, "--output", str(tmp_path), "--seeds", "1", "2"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["ppo-CartPole-v1-1"]


def test_what_is_no_checkpoint_of_the_program(tmp_path, capsys):
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(b"no checkpoint")
    assert "torch.load cannot read" in refusal(ppo.PROGRAM, ["--resume", str(path)], capsys)
    torch.save(torch.zeros(3), path)
    assert "holds something else" in refusal(ppo.PROGRAM, ["--resume", str(path)], capsys)
    save_checkpoint(path, {"config": {"task": "CartPole-v1"}})
    assert "expected a checkpoint of ppo" in refusal(ppo.PROGRAM, ["--resume", str(path)], capsys)


def test_a_checkpoint_from_before_a_setting_came(tmp_path, capsys):
    assert ppo.PROGRAM.main([*PPO, "--output", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("*/checkpoint.pt")
    resume = [*SMALL, "--resume", str(path), "--total-frames", "64"]
    state = load_checkpoint(path)
    del state["config"]["num_workers"]
    save_checkpoint(path, state)
    assert ppo.PROGRAM.main(resume) == 0
    for other, missing in ((appo, []), (ppo, ["hidden"])):  # another program's; one that cannot be told
        state = load_checkpoint(path)
        for name in missing:
            del state["config"][name]
        save_checkpoint(path, state)
        said = refusal(other.PROGRAM, ["--quiet", "--resume", str(path)], capsys)
        assert "--resume: expected a checkpoint of" in said


def test_what_a_checkpoint_cannot_go_on_with(tmp_path, capsys):
    assert ppo.PROGRAM.main([*PPO, "--output", str(tmp_path)]) == 0
    resume = ["--quiet", "--resume", str(tmp_path / "ppo-CartPole-v1-0" / "checkpoint.pt")]
    began = {
        "--num-envs": ("2", "4"),
        "--task": ("CartPole-v1", "Acrobot-v1"),
        "--adam-eps": ("1e-08", "0.1"),
        "--hidden": ("64,64", "8"),
        "--architecture": ("synchronous", "cleanba"),
        "--normalize-rewards": ("False", None),
    }
    for option, (saved, other) in began.items():
        said = f"{option}: expected {saved} with --resume, as the training began, got {other or True}"
        assert said in refusal(ppo.PROGRAM, [*resume, option, *([other] if other else [])], capsys)


@pytest.mark.parametrize("program", ["ppo", "sac"])
def test_another_learning_rate_counts_from_then_on(program, tmp_path):
    main, arguments = (ppo.PROGRAM.main, PPO) if program == "ppo" else (sac.PROGRAM.main, SAC)
    assert main([*arguments, "--output", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("*/checkpoint.pt")
    before = torch.load(path)["update"]["optimizer"]["param_groups"][0]["lr"]
    more = ["--learning-rate", "0.25", "--no-anneal-learning-rate"] if program == "ppo" else []
    assert (
        main([*SMALL, "--resume", str(path), "--total-frames", "64", *(more or ["--learning-rate", "0.25"])])
        == 0
    )
    assert torch.load(path)["update"]["optimizer"]["param_groups"][0]["lr"] == 0.25 != before


def test_envs_that_cannot_be_saved_leave_networks(tmp_path, capsys):
    """And what follows a training follows."""
    task = "gymnasium:locked_env:Locked-v0"
    assert ppo.PROGRAM.main([*PPO, "--task", task, "--evaluate", "1", "--output", str(tmp_path)]) == 0
    assert "The checkpoint holds networks only" in capsys.readouterr().out
    (path,) = tmp_path.glob("*/checkpoint.pt")
    assert torch.load(path)["update"]["parameters"].numel() > 0
    assert (path.parent / "evaluation.json").exists()
    said = refusal(ppo.PROGRAM, ["--quiet", "--resume", str(path)], capsys)
    assert "expected a checkpoint of simulators, too" in said
    assert "cannot be pickled" in said


@pytest.mark.parametrize("task", ["gymnasium:locked_env:Locked-v0", "gymnasium:Nothing-v0"])
def test_refusals_before_a_training_are_lines(task, tmp_path, capsys):
    said = refusal(ppo.PROGRAM, [*PPO, "--video", "--task", task, "--output", str(tmp_path)], capsys)
    assert ("--video: expected a task that can be drawn" if "Locked" in task else "Nothing") in said
    assert "Traceback" not in said
    assert not list(tmp_path.glob("*/curve.csv"))
    assert "--seeds: expected different ones" in refusal(ppo.PROGRAM, [*PPO, "--seeds", "1", "1"], capsys)


def test_a_mean_return_is_reached_by_a_whole_window(tmp_path):
    curve = Curve(tmp_path)
    curve._returns.extend([100.0] * 99)
    assert not curve.has_reached(50.0)
    curve._returns.append(100.0)
    assert curve.has_reached(50.0)
    assert not curve.has_reached(101.0)


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
    assert set(clock.timings()) == {"iterations", "collecting", "training"}
    clock.times_steps = True
    clock.add("env_step", 0.5)
    assert "env steps" in clock.summary()
    assert clock.timings()["inference"] == 0.5


@pytest.mark.parametrize("options", [[], ["--parallel"]])
def test_steps_are_timed_where_the_learner_waits_for_them(options, tmp_path):
    path = tmp_path / "timings.json"
    run = [*options, "--output", str(tmp_path), "--evaluate", "0", "--timings", str(path)]
    assert sac.PROGRAM.main([*SAC, *run]) == 0
    assert ("env_step" in json.loads(path.read_text())) == (not options)


def test_a_logger_hears_of_each_row(tmp_path, monkeypatch):
    heard = []

    class Logger:
        def log_metrics(self, row, step):
            heard.extend((name, step) for name in row)

        def close(self):
            heard.append(("closed", 0))

    made = []
    monkeypatch.setattr(loggers, "get_logger", lambda kind, **names: made.append(kind) or Logger())
    assert ppo.PROGRAM.main([*PPO, "--logger", "wandb", "--output", str(tmp_path)]) == 0
    assert made == ["wandb"]
    assert [step for name, step in heard if name == "return"] == [16, 32]
    assert heard[-1] == ("closed", 0)
    assert {"loss_critic", "learning_rate", "steps_per_second"} <= {name for name, _ in heard}


@pytest.mark.parametrize("missing", ["trackio", "wandb", "mlflow", "tensorboard"])
def test_a_logger_that_is_not_installed(missing, tmp_path, capsys):
    if importlib.util.find_spec(missing):
        pytest.skip(f"{missing} is installed")
    said = refusal(ppo.PROGRAM, [*PPO, "--logger", missing, "--output", str(tmp_path)], capsys)
    assert f"--logger {missing}: " in said
    assert "Traceback" not in said


def test_the_summary_names_the_seeds_that_were_run_and_how_they_ended(tmp_path, capsys, monkeypatch):
    """Of four seeds the first diverges, and the third is stopped."""
    iterate, titles, plot = ppo.PPOTraining.iterate, [], program.plot_curves

    def iterate_and_end(training):
        iterate(training)
        if training.config.seed == 1 and training.iteration == 2:
            training.update.optimizer.param_groups[0]["params"][0].data.fill_(torch.nan)
        if training.config.seed == 3:
            signal.raise_signal(signal.SIGTERM)

    def plot_and_note(rows, title, path):
        titles.append(title)
        plot(rows, title, path)

    monkeypatch.setattr(ppo.PPOTraining, "iterate", iterate_and_end)
    monkeypatch.setattr(program, "plot_curves", plot_and_note)
    assert ppo.PROGRAM.main([*PPO, "--seeds", "1", "2", "3", "4", "--output", str(tmp_path)]) == 1
    seeds = "seeds, 1 (diverged), 2, 3 (stopped): "
    assert f"Return over 3 {seeds}" in capsys.readouterr().out
    assert titles[-1] == "PPO on CartPole-v1, seeds 1 (diverged), 2, 3 (stopped)"
    assert not (tmp_path / "ppo-CartPole-v1-4").exists()
