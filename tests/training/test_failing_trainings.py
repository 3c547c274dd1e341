"""What is left of a training that cannot write, or whose weights get lost."""

import csv
import os
import resource
import signal

import pytest
import torch
from cases import cases

pytest.importorskip("tyro")

from torchrl_pool import EnvFailure
from torchrl_pool.examples import appo, dqn, impala, ppo, results, sac
from torchrl_pool.examples.results import Curve, load_checkpoint, save_checkpoint
from torchrl_pool.examples.run import Run

PPO = ["--quiet", "--num-envs", "2", "--frames-per-batch", "16", "--minibatch-size", "8", "--epochs", "1"]
PPO += ["--total-frames", "64", "--hidden", "8"]


def folder_of(output, seed=0):
    return output / f"ppo-CartPole-v1-{seed}"


def failing_in_iteration(iteration, failure, seed=0):
    iterate = Run.iterate

    def iterate_or_fail(training):
        if (training.config.seed, training.iteration) == (seed, iteration):
            raise failure
        iterate(training)

    return iterate_or_fail


def test_a_checkpoint_that_cannot_be_written_says_why_and_leaves_the_one_before(tmp_path):
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, {"config": {}, "weights": torch.zeros(3)})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(OSError, match=r"checkpoint\.pt cannot be written: .*File too large"):
            save_checkpoint(path, {"config": {}, "weights": torch.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == [path]
    assert load_checkpoint(path)["weights"].shape == (3,)


@pytest.mark.parametrize("name", cases(["checkpoint.unfinished", "checkpoint.pt"]))
def test_a_folder_in_the_way_of_the_checkpoint_costs_nothing_else(name, tmp_path, capsys):
    (folder_of(tmp_path, 1) / name).mkdir(parents=True)
    arguments = ["--seeds", "1", "2", "--evaluate", "1", "--checkpoint-seconds", "0"]
    assert ppo.PROGRAM.main([*PPO, *arguments, "--output", str(tmp_path)]) == 1
    said = [line for line in capsys.readouterr().err.splitlines() if "cannot be written" in line]
    assert len(said) == 5  # after each row, and at the end
    assert all(f"{folder_of(tmp_path, 1) / 'checkpoint.pt'} cannot be written" in line for line in said)
    for seed in (1, 2):
        assert (folder_of(tmp_path, seed) / "curve.png").exists()
        assert (folder_of(tmp_path, seed) / "evaluation.json").exists()
    assert not (folder_of(tmp_path, 1) / "checkpoint.unfinished").is_file()
    assert load_checkpoint(folder_of(tmp_path, 2) / "checkpoint.pt")["iteration"] == 4


def test_a_save_that_fails_is_tried_again(tmp_path, monkeypatch, capsys):
    iterate = Run.iterate

    def iterate_and_clear(training):
        if training.iteration == 2:
            (folder_of(tmp_path) / "checkpoint.unfinished").rmdir()
        iterate(training)

    monkeypatch.setattr(Run, "iterate", iterate_and_clear)
    (folder_of(tmp_path) / "checkpoint.unfinished").mkdir(parents=True)
    arguments = ["--evaluate", "0", "--checkpoint-seconds", "0", "--output", str(tmp_path)]
    assert ppo.PROGRAM.main([*PPO, *arguments]) == 0
    assert capsys.readouterr().err.count("cannot be written") == 2


def test_a_training_goes_on_where_its_curve_cannot_be_written(tmp_path, capsys):
    (folder_of(tmp_path) / "curve.csv").mkdir(parents=True)
    assert ppo.PROGRAM.main([*PPO, "--evaluate", "1", "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().err.count("curve.csv cannot be written") == 1
    assert load_checkpoint(folder_of(tmp_path) / "checkpoint.pt")["iteration"] == 4


def test_what_follows_a_training_is_named_where_it_cannot_be_written(tmp_path, capsys):
    picture = folder_of(tmp_path) / "curve.png"
    picture.parent.mkdir()
    picture.symlink_to("/dev/full")  # whose errors name no file
    assert ppo.PROGRAM.main([*PPO, "--evaluate", "1", "--output", str(tmp_path)]) == 1
    assert f"{picture} cannot be written: [Errno 28] No space left" in capsys.readouterr().err
    assert (folder_of(tmp_path) / "evaluation.json").exists()


def test_a_curve_is_whole_as_soon_as_it_can_be_written(tmp_path):
    curve = Curve(tmp_path)
    for frames in range(5):
        if frames == 2:
            (tmp_path / "curve.csv").rename(tmp_path / "old.csv")
            (tmp_path / "curve.csv").mkdir()
        if frames == 4:
            (tmp_path / "curve.csv").rmdir()
        curve.add({"frames": frames})
    with (tmp_path / "curve.csv").open() as file:
        assert [row["frames"] for row in csv.DictReader(file)] == ["0", "1", "2", "3", "4"]


SMALL = ["--quiet", "--evaluate", "1", "--hidden", "8", "--num-envs", "2", "--total-frames", "256"]
BATCHES = ["--frames-per-batch", "32", "--minibatch-size", "16", "--epochs", "1"]
REPLAY = ["--frames-per-batch", "2", "--learning-starts", "40", "--batch-size", "4", "--frames-per-row", "32"]


@pytest.mark.parametrize("when", ["between iterations", "in an iteration"])
@pytest.mark.parametrize(
    ("program", "arguments"),
    cases(
        default=[(ppo, BATCHES), (ppo, [*BATCHES, "--task", "Pendulum-v1"]), (impala, ["--steps", "16"])],
        also=[
            (ppo, [*BATCHES, "--architecture", "asynchronous"]),
            (appo, [*BATCHES, "--population", "2", "--total-frames", "512"]),
            (sac, [*REPLAY, "--task", "Pendulum-v1"]),
            (dqn, REPLAY),
        ],
    ),
)
def test_a_training_that_diverges_says_so_and_keeps_the_last_finite_weights(
    program, arguments, when, tmp_path, capsys, monkeypatch
):
    iterate = Run.iterate

    def iterate_and_diverge(self):
        due = self.iteration == 3 and not self.members
        if due and when == "between iterations":
            lose_weights(self)
        iterate(self)
        if due:
            lose_weights(self)

    monkeypatch.setattr(Run, "iterate", iterate_and_diverge)
    arguments = [*SMALL, *arguments, "--checkpoint-seconds", "0", "--video", "--output", str(tmp_path)]
    assert program.PROGRAM.main(arguments) == 1
    said = capsys.readouterr()
    (path,) = tmp_path.glob("*/checkpoint.pt")
    assert "the training has diverged: weights are not finite after" in said.err
    assert f"{path} holds the last finite ones" in said.err
    assert "Evaluation" not in said.out
    state = load_checkpoint(path)
    assert state["iteration"] == 3
    assert all(one["update"]["parameters"].isfinite().all() for one in state.get("members", [state]))
    assert (path.parent / "curve.png").exists()


def lose_weights(run):
    for group in run.parts["update"].optimizer.param_groups:
        for weights in group["params"]:
            weights.data.fill_(torch.nan)


def test_what_diverges_before_it_was_saved_or_is_gone_on_with(tmp_path, capsys):
    """The former checkpoint of the folder, another training's, is not left beside its settings."""
    path = folder_of(tmp_path) / "checkpoint.pt"
    assert ppo.PROGRAM.main([*PPO, "--evaluate", "0", "--output", str(tmp_path)]) == 0
    state = load_checkpoint(path)
    lost = [*PPO, "--learning-rate", "1e38", "--seeds", "0", "1", "--output", str(tmp_path), "--overwrite"]
    assert ppo.PROGRAM.main(lost) == 1
    assert capsys.readouterr().err.count("; none were saved") == 2
    assert not path.exists()
    state["update"]["parameters"][-1] = torch.inf  # a critic's: the actor has its own, too
    save_checkpoint(path, state)
    with pytest.raises(SystemExit):
        ppo.PROGRAM.main(["--quiet", "--resume", str(path)])
    assert "its weights are not finite" in capsys.readouterr().err


def test_other_failures_stay_what_they_are(tmp_path, monkeypatch):
    def fail(training):
        raise RuntimeError("of another kind")

    monkeypatch.setattr(Run, "iterate", fail)
    with pytest.raises(RuntimeError, match="of another kind"):
        ppo.PROGRAM.main([*PPO, "--output", str(tmp_path)])


@pytest.mark.parametrize("seconds", cases(["300", "0"]), ids=["never saved", "saved"])
def test_envs_that_fail_end_their_training_alone(seconds, tmp_path, monkeypatch, capsys):
    """What was learned by then is there: all of it, if it had been saved."""
    failure = EnvFailure("env 1 failed: the lamp is broken\n\nTraceback", [1], ["the lamp is broken"])
    monkeypatch.setattr(Run, "iterate", failing_in_iteration(3, failure, seed=1))
    arguments = [*PPO, "--evaluate", "0", "--output", str(tmp_path), "--seeds", "1", "2"]
    assert ppo.PROGRAM.main([*arguments, "--checkpoint-seconds", seconds]) == 1
    said = capsys.readouterr()
    assert "the training ends here: env 1 failed: the lamp is broken\n" in said.err
    assert "Traceback" not in said.err
    failed, whole = (load_checkpoint(folder_of(tmp_path, seed) / "checkpoint.pt") for seed in (1, 2))
    assert whole["iteration"] == 4
    if seconds == "0":
        assert failed["iteration"] == 3
        assert f"go on with --resume {folder_of(tmp_path, 1) / 'checkpoint.pt'}" in said.out
    else:
        assert "the lamp is broken" in failed["not_whole"]
        assert failed["update"]["parameters"].numel()
    assert "1 (failed), 2" in said.out


def test_a_whole_checkpoint_is_worth_more_than_what_fails(tmp_path, monkeypatch):
    """By whatever path it was named."""
    assert ppo.PROGRAM.main([*PPO, "--evaluate", "0", "--output", str(tmp_path)]) == 0
    path = folder_of(tmp_path) / "checkpoint.pt"
    monkeypatch.setattr(Run, "iterate", failing_in_iteration(4, EnvFailure("it broke", [], [])))
    monkeypatch.chdir(tmp_path)
    more = ["--quiet", "--evaluate", "0", "--total-frames", "96", "--output", str(tmp_path)]
    assert ppo.PROGRAM.main([*more, "--resume", f"{path.parent.name}/checkpoint.pt"]) == 1
    assert load_checkpoint(path)["iteration"] == 4


def test_nobody_trains_on_who_was_asked_to_stop(tmp_path, monkeypatch):
    def stop_and_fail(training):
        os.kill(os.getpid(), signal.SIGTERM)
        raise EnvFailure("it broke", [], [])

    monkeypatch.setattr(Run, "iterate", stop_and_fail)
    assert ppo.PROGRAM.main([*PPO, "--output", str(tmp_path), "--seeds", "1", "2"]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["ppo-CartPole-v1-1"]


def test_a_request_to_stop_counts_while_the_last_checkpoint_is_written(tmp_path, monkeypatch):
    def save(path, state):
        save_checkpoint(path, state)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(results, "save_checkpoint", save)
    assert ppo.PROGRAM.main([*PPO, "--output", str(tmp_path), "--seeds", "1", "2"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["ppo-CartPole-v1-1"]


def test_envs_that_fail_in_the_evaluation(tmp_path, monkeypatch, capsys):
    def fail(*arguments):
        raise EnvFailure("env 0 failed: it broke\n\nTraceback", [0], ["it broke"])

    monkeypatch.setattr(results, "evaluate", fail)
    assert ppo.PROGRAM.main([*PPO, "--output", str(tmp_path), "--seeds", "1", "2"]) == 1
    said = capsys.readouterr().err
    assert said.count("evaluation.json cannot be written: env 0 failed: it broke\n") == 2
    assert "Traceback" not in said


def test_a_seed_that_cannot_begin_is_left_out(tmp_path, capsys):
    folder_of(tmp_path, 2).touch()
    arguments = [*PPO, "--evaluate", "0", "--output", str(tmp_path), "--seeds", "1", "2", "3"]
    assert ppo.PROGRAM.main(arguments) == 1
    said = capsys.readouterr()
    assert "seed 2 is left out: " in said.err
    assert "Return over 2 seeds, 1, 3:" in said.out


@pytest.mark.parametrize("name", cases(["population.csv", "population.png"]))
def test_a_population_goes_on_where_its_history_cannot_be_written(name, tmp_path, capsys):
    (tmp_path / "appo-CartPole-v1-0" / name).mkdir(parents=True)
    arguments = [
        "--quiet",
        "--evaluate",
        "0",
        "--output",
        str(tmp_path),
        "--population",
        "2",
        "--hidden",
        "8",
    ]
    arguments += ["--num-envs", "2", "--frames-per-batch", "16", "--minibatch-size", "16"]
    appo.PROGRAM.main([*arguments, "--total-frames", "256", "--exchange-frames", "64"])
    assert f"{name} cannot be written" in capsys.readouterr().err
    assert load_checkpoint(tmp_path / "appo-CartPole-v1-0" / "checkpoint.pt")["iteration"] > 0


def test_the_summary_names_the_seeds_that_were_run_and_how_they_ended(tmp_path, capsys, monkeypatch):
    """Of four seeds the first diverges, and the third is stopped."""
    iterate, titles, plot = Run.iterate, [], results.plot_curves

    def iterate_and_end(training):
        iterate(training)
        if training.config.seed == 1 and training.iteration == 2:
            lose_weights(training)
        if training.config.seed == 3:
            signal.raise_signal(signal.SIGTERM)

    def plot_and_note(rows, title, path):
        titles.append(title)
        plot(rows, title, path)

    monkeypatch.setattr(Run, "iterate", iterate_and_end)
    monkeypatch.setattr(results, "plot_curves", plot_and_note)
    asked = ["--seeds", "1", "2", "3", "4", "--evaluate", "0"]
    assert ppo.PROGRAM.main([*PPO, *asked, "--output", str(tmp_path)]) == 1
    assert "Return over 3 seeds, 1 (diverged), 2, 3 (stopped): " in capsys.readouterr().out
    assert titles[-1:] == ["PPO on CartPole-v1, seeds 1 (diverged), 2, 3 (stopped)"]
    assert not (tmp_path / "ppo-CartPole-v1-4").exists()
