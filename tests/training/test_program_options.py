"""The command lines of the training programs: what cannot be is refused at once, and leaves nothing."""

import importlib.util
import json
from contextlib import closing

import pytest
import torch

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

from torchrl_pool.examples import appo, dqn, impala, ppo, program, results, sac, self_play
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
    [
        (ppo, ["--evaluate", "-1"], "--evaluate: expected at least 0, got -1"),
        (ppo, ["--until-return", "nan"], "--until-return: expected a number, got nan"),
        (ppo, ["--learning-rate", "nan"], "--learning-rate: expected at least 0, got nan"),
        (ppo, ["--gamma", "1.5"], "--gamma: expected at least 0 and at most 1, got 1.5"),
        (sac, ["--tau", "0"], "--tau: expected more than 0 and at most 1, got 0.0"),
        (ppo, ["--clip-epsilon", "1.5"], "--clip-epsilon: expected more than 0 and less than 1, got 1.5"),
        (ppo, ["--seeds", "1", "-1"], f"--seed: expected at least 0 and less than {1 << 62}, got -1"),
        (ppo, ["--seeds", "1", "1"], "--seeds: expected different ones"),
        (ppo, ["--seed", "7", "--seeds", "1", "2"], "--seeds: expected neither --seed nor --resume"),
        (ppo, ["--hidden", "64,0"], "--hidden: expected numbers of units such as 64,64, got '64,0'"),
        (ppo, ["--task", "CartPole-v9"], "CartPole-v1"),
        (ppo, ["--task", "gymnasium:CartPole-v9"], "CartPole"),
        (dqn, ["--task", "Pendulum-v1"], "--task: expected one with discrete actions, got Pendulum-v1"),
        (sac, ["--task", "CartPole-v1"], "--task: expected one with continuous actions, got CartPole-v1"),
        (self_play, ["--task", "CartPole-v1"], "--task: expected one with an entry 'opponent_observation'"),
        (ppo, ["--policy", "tanh-normal", "--entropy-coef", "0.1"], "--entropy-coef: expected 0 with"),
        (ppo, ["--kl-target", "0.01", "--anneal-learning-rate"], "--kl-target: expected 0"),
        (ppo, ["--minibatch-size", "1000000"], "--minibatch-size: expected at most the 2048 steps"),
        (ppo, ["--num-envs", "4", "--actors", "3"], "--num-envs: expected a multiple of 3 actors, got 4"),
        (ppo, ["--actors", "2", "--normalize-observations"], "--actors: expected 1 with"),
        (ppo, ["--recurrent", "gru", "--sequence-length", "5"], "--sequence-length: expected a divisor of"),
        (ppo, ["--recurrent", "gru", "--minibatch-size", "8"], "expected at least one sequence of 64 steps"),
        (appo, ["--population", "4", "--total-frames", "3"], "--total-frames: expected some for each of 4"),
        (appo, ["--refreshes", "3"], "--refreshes: expected a divisor of 64 steps, got 3"),
        (impala, ["--minibatches", "3"], "--num-envs: expected a multiple of 3 parts of a batch, got 32"),
        (dqn, ["--total-frames", "100"], "--learning-starts: expected less than the 100 of --total-frames"),
        (dqn, ["--buffer-size", "4"], "--buffer-size: expected at least the 10 steps of a batch, got 4"),
        (dqn, ["--epsilon-start", "0.01"], "--epsilon-end: expected at most the 0.01 of --epsilon-start"),
        (dqn, ["--value-min", "11"], "--value-min: expected less than 10.0, got 11.0"),
        (dqn, ["--distributional", "--double"], "--distributional: expected neither --double"),
        (ppo, ["--episodic-life"], "--episodic-life: expected a game of Atari's as --task"),
        (impala, ["--sticky-actions", "0.5"], "--sticky-actions: expected a game of Atari's as --task"),
        (ppo, ["--num-workers", "0"], "--num-workers: expected gymnasium:ID as --task, got 'CartPole-v1'"),
        (ppo, ["--hidden-size", "32"], "--hidden-size: expected --recurrent other than none with it"),
        (dqn, ["--value-min", "-1"], "--value-min: expected --distributional with it"),
        (sac, ["--priority-beta", "1"], "--priority-beta: expected --priority-alpha other than 0.0"),
        (impala, ["--compile", "yes"], "--compile: expected auto or no"),
        (appo, ["--recurrent", "lstm", "--compile", "yes"], "--compile: expected auto or no"),
        (ppo, ["--lr", "0.1"], "Unrecognized options: --lr, 0.1"),
        (ppo, ["--preset", "nothing"], "--preset: expected one of classic, cleanrl-classic"),
        (ppo, ["--resume", "x.pt", "--preset", "classic"], "--preset: expected none with --resume"),
        (ppo, ["--resume", "no/such/file.pt"], "no/such/file.pt"),
    ],
)
def test_what_cannot_be_is_refused(program, arguments, message, tmp_path, capsys):
    output = tmp_path / "runs"
    assert message in refusal(program.PROGRAM, [*arguments, "--output", str(output)], capsys)
    assert not output.exists()


def test_where_nothing_can_be_written(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert "file" in refusal(ppo.PROGRAM, [*PPO, "--output", str(tmp_path / "file" / "below")], capsys)


def test_an_earlier_training_is_not_overwritten_unasked(tmp_path, capsys):
    arguments = [*PPO, "--output", str(tmp_path / "runs")]
    assert ppo.PROGRAM.main(arguments) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    (folder / "video.gif").touch()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    more = ["--learning-rate", "0.5"]
    said = refusal(ppo.PROGRAM, [*arguments, *more], capsys)
    assert f"--resume {folder / 'checkpoint.pt'} goes on with it" in said
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
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


@pytest.mark.parametrize("missing", ["trackio", "wandb", "mlflow", "tensorboard"])
def test_a_logger_that_is_not_installed(missing, tmp_path, capsys):
    if importlib.util.find_spec(missing):
        pytest.skip(f"{missing} is installed")
    said = refusal(ppo.PROGRAM, [*PPO, "--logger", missing, "--output", str(tmp_path)], capsys)
    assert f"--logger {missing}: " in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("began", "given", "goes_on"),
    [
        ((True, 1), [], ("yes", 1)),
        ((False, 1), [], ("no", 1)),
        ((True, 1), ["--compile", "no", "--torch-threads", "2"], ("no", 2)),
        ((False, 10_000), [], ("no", 0)),  # on a machine with more processors than this one has
    ],
)
def test_a_resumed_training_computes_as_it_began(tmp_path, began, given, goes_on):
    assert ppo.PROGRAM.main([*PPO, "--output", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("*/checkpoint.pt")
    save_checkpoint(path, {**load_checkpoint(path), "compile": began[0], "threads": began[1]})
    options, _ = ppo.PROGRAM.parse(["--resume", str(path), *given])
    assert (options.compile, options.torch_threads) == goes_on


def test_a_training_that_is_resumed_elsewhere_leaves_the_old_one_as_it_was(tmp_path):
    assert ppo.PROGRAM.main([*PPO, "--output", str(tmp_path / "old")]) == 0
    (folder,) = (tmp_path / "old").iterdir()
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    more = ["--total-frames", "64", "--evaluate", "0", "--output", str(tmp_path / "new")]
    assert ppo.PROGRAM.main(["--quiet", "--resume", str(folder), *more]) == 0
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert load_checkpoint(tmp_path / "new" / folder.name / "checkpoint.pt")["iteration"] == 4


@pytest.mark.parametrize("program", [ppo, appo, impala, dqn, sac, self_play])
def test_help_names_every_setting_and_preset(program, capsys):
    with pytest.raises(SystemExit) as exit_info:
        program.PROGRAM.main(["--help"])
    assert exit_info.value.code == 0
    shown = capsys.readouterr().out
    for name in [*program.Config.__dataclass_fields__, "preset", "seeds", "resume", "logger", "video"]:
        assert f"--{name.replace('_', '-')}" in shown
    assert all(f"  {name}" in shown for name in program.PROGRAM.presets)
