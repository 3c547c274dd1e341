"""The command lines of the training programs: what cannot be is refused at once, and leaves nothing."""

import importlib.util
import json
from contextlib import closing

import pytest
import torch
from cases import cases

pytest.importorskip("tyro")

from torchrl_pool.examples import appo, dqn, impala, ppo, results, sac, self_play
from torchrl_pool.examples.envs import make_env, pool_of
from torchrl_pool.examples.results import load_checkpoint, save_checkpoint

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
    cases(
        default=[
            (ppo, ["--until-return", "nan"], "--until-return: expected a number, got nan"),
            (ppo, ["--learning-rate", "nan"], "--learning-rate: expected at least 0, got nan"),
            (ppo, ["--seeds", "1", "1"], "--seeds: expected different ones"),
            (ppo, ["--seed", "7", "--seeds", "1", "2"], "--seeds: expected neither --seed nor --resume"),
            (ppo, ["--hidden", "64,0"], "--hidden: expected numbers of units such as 64,64, got '64,0'"),
            (dqn, ["--task", "Pendulum-v1"], "--task: expected one with discrete actions, got Pendulum-v1"),
            (sac, ["--task", "CartPole-v1"], "--task: expected one with continuous actions, got CartPole-v1"),
            (
                self_play,
                ["--task", "CartPole-v1"],
                "--task: expected one with an entry 'opponent_observation'",
            ),
            (ppo, ["--policy", "tanh-normal", "--entropy-coef", "0.1"], "--entropy-coef: expected 0 with"),
            (ppo, ["--kl-target", "0.01", "--anneal-learning-rate"], "--kl-target: expected 0"),
            (ppo, ["--minibatch-size", "1000000"], "--minibatch-size: expected at most the 2048 steps"),
            (ppo, ["--num-envs", "4", "--actors", "3"], "--num-envs: expected a multiple of 3 actors, got 4"),
            (ppo, ["--actors", "2", "--normalize-observations"], "--actors: expected 1 with"),
            (
                ppo,
                ["--recurrent", "gru", "--sequence-length", "5"],
                "--sequence-length: expected a divisor of",
            ),
            (
                ppo,
                ["--recurrent", "gru", "--minibatch-size", "8"],
                "expected at least one sequence of 64 steps",
            ),
            (
                appo,
                ["--population", "4", "--total-frames", "3"],
                "--total-frames: expected some for each of 4",
            ),
            (appo, ["--refreshes", "3"], "--refreshes: expected a divisor of 64 steps, got 3"),
            (impala, ["--minibatches", "3"], "--num-envs: expected a multiple of 3 parts of a batch, got 32"),
            (
                dqn,
                ["--total-frames", "100"],
                "--learning-starts: expected less than the 100 of --total-frames",
            ),
            (dqn, ["--buffer-size", "4"], "--buffer-size: expected at least the 10 steps of a batch, got 4"),
            (dqn, ["--epsilon-start", "0.01"], "--epsilon-end: expected at most the 0.01 of --epsilon-start"),
            (dqn, ["--value-min", "11"], "--value-min: expected less than 10.0, got 11.0"),
            (dqn, ["--distributional", "--double"], "--distributional: expected neither --double"),
            (ppo, ["--episodic-life"], "--episodic-life: expected a game of Atari's as --task"),
            (impala, ["--sticky-actions", "0.5"], "--sticky-actions: expected a game of Atari's as --task"),
            (ppo, ["--hidden-size", "32"], "--hidden-size: expected --recurrent other than none with it"),
            (appo, ["--recurrent", "lstm", "--compile", "yes"], "--compile: expected auto or no"),
            (ppo, ["--preset", "nothing"], "--preset: expected one of classic, cleanrl-classic"),
            (ppo, ["--resume", "x.pt", "--preset", "classic"], "--preset: expected none with --resume"),
        ],
        also=[
            (ppo, ["--evaluate", "-1"], "--evaluate: expected at least 0, got -1"),
            (ppo, ["--gamma", "1.5"], "--gamma: expected at least 0 and at most 1, got 1.5"),
            (sac, ["--tau", "0"], "--tau: expected more than 0 and at most 1, got 0.0"),
            (ppo, ["--clip-epsilon", "1.5"], "--clip-epsilon: expected more than 0 and less than 1, got 1.5"),
            (ppo, ["--seeds", "1", "-1"], f"--seed: expected at least 0 and less than {1 << 62}, got -1"),
            (ppo, ["--task", "CartPole-v9"], "CartPole-v1"),
            (ppo, ["--task", "gymnasium:CartPole-v9"], "CartPole"),
            (
                ppo,
                ["--num-workers", "1"],
                "--num-workers: expected gymnasium:ID as --task, got 'CartPole-v1'",
            ),
            (dqn, ["--value-min", "-1"], "--value-min: expected --distributional with it"),
            (sac, ["--priority-beta", "1"], "--priority-beta: expected --priority-alpha other than 0.0"),
            (impala, ["--compile", "yes"], "--compile: expected auto or no"),
            (ppo, ["--lr", "0.1"], "Unrecognized options: --lr, 0.1"),
            (ppo, ["--resume", "no/such/file.pt"], "no/such/file.pt"),
        ],
    ),
)
def test_what_cannot_be_is_refused(program, arguments, message, tmp_path, capsys):
    output = tmp_path / "runs"
    assert message in refusal(program.PROGRAM, [*arguments, "--output", str(output)], capsys)
    assert not output.exists()


@pytest.fixture
def trained(tmp_path):
    """The checkpoint of a small training, which has ended."""
    assert ppo.PROGRAM.main([*PPO, "--output", str(tmp_path / "runs")]) == 0
    return tmp_path / "runs" / "ppo-CartPole-v1-0" / "checkpoint.pt"


def goes_on(path, frames, *more):
    """Resumes a training, until it has so many frames."""
    resume = ["--quiet", "--evaluate", "0", "--resume", str(path), "--total-frames", str(frames)]
    return ppo.PROGRAM.main([*resume, *more])


def files_below(folder):
    return {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}


def test_where_nothing_can_be_written(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert "file" in refusal(ppo.PROGRAM, [*PPO, "--output", str(tmp_path / "file" / "below")], capsys)


def test_an_earlier_training_is_not_overwritten_unasked(trained, tmp_path, capsys):
    (trained.parent / "video.gif").touch()
    before = files_below(tmp_path)
    more = [*PPO, "--output", str(tmp_path / "runs"), "--learning-rate", "0.5"]
    assert f"--resume {trained} goes on with it" in refusal(ppo.PROGRAM, more, capsys)
    assert files_below(tmp_path) == before
    assert ppo.PROGRAM.main([*more, "--overwrite"]) == 0
    assert not (trained.parent / "video.gif").exists()
    assert json.loads((trained.parent / "config.json").read_text())["learning_rate"] == 0.5
    assert goes_on(trained, 64, "--output", str(tmp_path / "runs")) == 0  # in its own place
    assert load_checkpoint(trained)["iteration"] == 4


def test_no_command_removes_the_checkpoint_that_it_goes_on_from(trained, tmp_path, capsys):
    link = tmp_path / "latest.pt"
    link.symlink_to(trained)
    for path, frames, more in (trained.parent, 48, []), (link, 64, ["--overwrite"]), (link, 96, []):
        assert goes_on(path, frames, "--output", str(tmp_path / "runs"), *more) == 0
        assert load_checkpoint(trained)["iteration"] == frames // 16
    other = trained.with_name("other.pt")
    other.write_bytes(trained.read_bytes())
    assert "holds an earlier training" in refusal(ppo.PROGRAM, ["--resume", str(other)], capsys)


def test_what_cannot_begin_overwrites_nothing(trained, tmp_path, capsys, monkeypatch):
    before = files_below(tmp_path)
    monkeypatch.setattr(results, "check_video", failing_with(ValueError("no film")))
    again = [*PPO, "--output", str(tmp_path / "runs"), "--overwrite", "--video"]
    assert "no film" in refusal(ppo.PROGRAM, again, capsys)
    assert files_below(tmp_path) == before


def test_a_training_that_is_resumed_elsewhere_leaves_the_old_one_as_it_was(trained, tmp_path):
    before = files_below(tmp_path)
    assert goes_on(trained.parent, 64, "--output", str(tmp_path / "new")) == 0
    assert before.items() <= files_below(tmp_path).items()
    assert load_checkpoint(tmp_path / "new" / trained.parent.name / "checkpoint.pt")["iteration"] == 4


def test_presets_may_name_what_a_task_has_no_use_for():
    arguments = ["--preset", "cleanba-atari", "--task", "CartPole-v1"]
    assert impala.PROGRAM.parse(arguments)[1].sticky_actions > 0


@pytest.mark.parametrize(
    ("options", "num_workers"),
    [({"num_workers": 3}, 3), ({"num_workers": 0}, 0)],
)
def test_envs_of_gymnasium_live_where_they_are_told_to(options, num_workers):
    config = ppo.PROGRAM.config(task="gymnasium:CartPole-v1", **options)
    with closing(make_env(config, num_envs=4, seed=0)) as env:
        assert pool_of(env).num_workers == num_workers


def test_weights_do_not_depend_on_where_envs_live(tmp_path):
    weights = []
    for count in "0", "1", "2":
        arguments = [*PPO, "--task", "gymnasium:CartPole-v1", "--num-workers", count]
        assert ppo.PROGRAM.main([*arguments, "--output", str(tmp_path / count)]) == 0
        (checkpoint,) = (tmp_path / count).glob("*/checkpoint.pt")
        weights.append(torch.load(checkpoint)["update"]["parameters"])
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[0], weights[2])


def test_what_is_no_checkpoint_of_the_program(tmp_path, capsys):
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(b"no checkpoint")
    assert "torch.load cannot read" in refusal(ppo.PROGRAM, ["--resume", str(path)], capsys)
    torch.save(torch.zeros(3), path)
    assert "holds something else" in refusal(ppo.PROGRAM, ["--resume", str(path)], capsys)
    save_checkpoint(path, {"config": {"task": "CartPole-v1"}})
    assert "expected a checkpoint of ppo" in refusal(ppo.PROGRAM, ["--resume", str(path)], capsys)


def test_a_checkpoint_from_before_a_setting_came(trained, capsys):
    def forget(name):
        state = load_checkpoint(trained)
        del state["config"][name]
        save_checkpoint(trained, state)

    forget("num_workers")
    assert goes_on(trained, 64) == 0
    for other in appo, ppo:  # another program's; one that cannot be told
        said = refusal(other.PROGRAM, ["--quiet", "--resume", str(trained)], capsys)
        assert "--resume: expected a checkpoint of" in said
        if other is appo:
            forget("hidden")


def test_what_a_checkpoint_cannot_go_on_with(trained, capsys):
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
        given = [option, *([other] if other else [])]
        assert said in refusal(ppo.PROGRAM, ["--resume", str(trained), *given], capsys)


@pytest.mark.parametrize("program", cases(["ppo", "sac"]))
def test_another_learning_rate_counts_from_then_on(program, tmp_path):
    main, arguments, more = (ppo.PROGRAM.main, PPO, ["--no-anneal-learning-rate"])
    if program == "sac":
        main, arguments, more = (sac.PROGRAM.main, SAC, [])
    assert main([*arguments, "--output", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("*/checkpoint.pt")
    before = torch.load(path)["update"]["optimizer"]["param_groups"][0]["lr"]
    resume = [*SMALL, "--resume", str(path), "--total-frames", "64", "--learning-rate", "0.25"]
    assert main([*resume, *more]) == 0
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


@pytest.mark.parametrize("task", cases(["gymnasium:locked_env:Locked-v0", "gymnasium:Nothing-v0"]))
def test_refusals_before_a_training_are_lines(task, tmp_path, capsys):
    said = refusal(ppo.PROGRAM, [*PPO, "--video", "--task", task, "--output", str(tmp_path)], capsys)
    assert ("--video: expected a task that can be drawn" if "Locked" in task else "Nothing") in said
    assert "Traceback" not in said
    assert not list(tmp_path.glob("*/curve.csv"))


def test_a_logger_hears_of_each_row(tmp_path, monkeypatch):
    heard = []

    class Logger:
        def log_metrics(self, row, step):
            heard.extend((name, step) for name in row)

        def close(self):
            heard.append(("closed", 0))

    made = []
    monkeypatch.setattr(results, "get_logger", lambda kind, **names: made.append(kind) or Logger())
    assert ppo.PROGRAM.main([*PPO, "--logger", "wandb", "--output", str(tmp_path)]) == 0
    assert made == ["wandb"]
    assert [step for name, step in heard if name == "return"] == [16, 32]
    assert heard[-1] == ("closed", 0)
    assert {"loss_critic", "learning_rate", "steps_per_second"} <= {name for name, _ in heard}


@pytest.mark.parametrize("missing", cases(default=["trackio", "mlflow"], also=["wandb", "tensorboard"]))
def test_a_logger_that_is_not_installed(missing, tmp_path, capsys):
    if importlib.util.find_spec(missing):
        pytest.skip(f"{missing} is installed")
    said = refusal(ppo.PROGRAM, [*PPO, "--logger", missing, "--output", str(tmp_path)], capsys)
    assert f"--logger {missing}: " in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("began", "given", "goes_on"),
    cases(
        default=[((False, 1), [], ("no", 1)), ((False, 10_000), [], ("no", 0))],
        also=[
            ((True, 1), [], ("yes", 1)),
            ((True, 1), ["--compile", "no", "--torch-threads", "2"], ("no", 2)),
        ],
    ),
)
def test_a_resumed_training_computes_as_it_began(trained, began, given, goes_on):
    save_checkpoint(trained, {**load_checkpoint(trained), "compile": began[0], "threads": began[1]})
    options, _ = ppo.PROGRAM.parse(["--resume", str(trained), *given])
    assert (options.compile, options.torch_threads) == goes_on


@pytest.mark.parametrize("program", cases(default=[impala, dqn, sac], also=[ppo, appo, self_play]))
def test_help_names_every_setting_and_preset(program, capsys):
    with pytest.raises(SystemExit) as exit_info:
        program.PROGRAM.main(["--help"])
    assert exit_info.value.code == 0
    shown = capsys.readouterr().out
    for name in [*program.Config.__dataclass_fields__, "preset", "seeds", "resume", "logger", "video"]:
        assert f"--{name.replace('_', '-')}" in shown
    assert all(f"  {name}" in shown for name in program.PROGRAM.presets)
