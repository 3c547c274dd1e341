"""What makes a program of a training: its command line, its folder, its end; and how its policy is loaded."""

from __future__ import annotations

import argparse
import importlib
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.envs import EnvBase

from torchrl_pool import EnvFailure
from torchrl_pool.examples import options as opt
from torchrl_pool.examples.loggers import close_logger, log_video, open_logger
from torchrl_pool.examples.options import RunOptions
from torchrl_pool.examples.results import (
    Row,
    StopRequest,
    could,
    evaluate,
    first_line,
    load_checkpoint,
    mean_and_spread,
    plot_curves,
    progress_bar,
    save_checkpoint,
    save_json,
    warn,
)
from torchrl_pool.examples.seeds import summary
from torchrl_pool.examples.seeds import told as seeds_told
from torchrl_pool.examples.training import Training, iterate_to_finite_weights
from torchrl_pool.examples.video import check_video, record_video

CHECKPOINT, EVALUATION, CURVE = "checkpoint.pt", "evaluation.json", "curve.csv"
# What an earlier training may have left that this one need not write again.
RESULTS = {CHECKPOINT, EVALUATION, CURVE, "curve.png", "lag.png", "video.mp4", "video.gif"}
RESULTS |= {"population.csv", "population.png"}
COMPILE_FROM = 30_000  # updates of a small network, after which compiling has paid


@dataclass(frozen=True)
class Program:
    """A training program: ``Program(…).main()`` is ``python -m torchrl_pool.examples.NAME``.

    Args:
        name: the module's.
        title: of the algorithm.
        source: where it was published.
        config: its settings.
        training: makes the :class:`Training` of ``(config, folder, compile=…)``.
        like: the program with the same presets and the same policy; default: itself.
        prepare: is called first.
    """

    name: str
    title: str
    source: str
    config: type[Any]
    training: Callable[..., Training[Any]]
    like: str = ""
    prepare: Callable[[], object] = lambda: None

    @property
    def presets(self) -> Mapping[str, Any]:
        """By name, where they are from and what they set."""
        found: Mapping[str, Any] = opt.PRESETS[self.like or self.name]
        return found

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Runs the command line; returns the exit status."""
        self.prepare()
        parser = self.parser()
        options = parser.parse_args(arguments)
        try:
            configs = self.configs_of(options)
            folders = self.folders_of(configs, options)
            if options.timings:  # now, not after hours, it is seen that it cannot be written
                options.timings.parent.mkdir(parents=True, exist_ok=True)
                options.timings.open("a").close()
        except (ValueError, OSError) as error:
            parser.error(str(error))
        runs: dict[str, list[Row]] = {}  # by the seed, and how it ended before its end
        evaluations: dict[int, list[float]] = {}  # by the seed: returns of its episodes
        timings, went_well = [], []
        for config, folder in zip(configs, folders, strict=True):
            try:
                training = self.begin(config, options, folder)
            except (ValueError, OSError, EnvFailure) as error:
                reason = first_line(error) if isinstance(error, EnvFailure) else str(error)
                if config is configs[0]:
                    parser.error(reason)
                print(f"seed {config.seed} is left out: {reason}", file=sys.stderr)
                went_well.append(False)
                continue
            try:
                run = Run(self, training, options)
                went_well.append(run.train())
            except KeyboardInterrupt:  # after the training, which saves what there is and stops
                print(f"interrupted; {folder}")
                return 128 + signal.SIGINT
            if training.curve.rows:
                label = f"{config.seed} ({training.ending})" if training.ending else str(config.seed)
                runs[label] = training.curve.rows
            if run.returns:
                evaluations[config.seed] = run.returns
            timings.append(training.clock.timings())
            if run.was_stopped:
                break
        if len(runs) > 1:
            path, seeds = folders[0].with_name(f"{self.name}-{_file_name(configs[0])}.png"), ", ".join(runs)
            title = f"{self.title} on {configs[0].task}, seeds {seeds}"
            went_well.append(could(path, plot_curves, list(runs.values()), title, path))
            last = [one for rows in runs.values() if not math.isnan(one := rows[-1]["return"])]
            told = seeds_told(last) if last else "no episode has ended yet"
            print(f"Return over {len(runs)} seeds, {seeds}: {told}; {path}")
        if len(evaluations) > 1:
            path = folders[0].with_name(f"{self.name}-{_file_name(configs[0])}.json")
            went_well.append(could(path, save_json, path, summary(evaluations)))
            means = [fmean(returns) for returns in evaluations.values()]
            print(f"Evaluation over {len(means)} seeds: {seeds_told(means)}; {path}")
        if options.timings:
            total = {part: sum(one[part] for one in timings) for part in timings[0]}
            went_well.append(could(options.timings, save_json, options.timings, total))
        return 0 if all(went_well) else 1

    def parser(self) -> argparse.ArgumentParser:
        """The options: those of a run, and one for each field of the settings."""
        parser = opt.Parser(
            prog=f"python -m torchrl_pool.examples.{self.name}",
            usage="%(prog)s [--task TASK] [--preset NAME] [the run] [settings]",
            description=f"Trains {self.title} ({self.source}) on a task of torchrl_pool. Leaves the\n"
            "learning curve (CSV, PNG), a checkpoint and an evaluation in a folder. Ctrl-C saves and stops.",
            epilog="presets, and the options that each stands for (options given by hand override them):\n"
            + opt.told_presets(self.presets),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        opt.add_options(parser.add_argument_group("the run"), RunOptions, with_defaults=True)
        settings = parser.add_argument_group("settings (without a preset's)")
        opt.add_options(settings, self.config, with_defaults=False)
        return parser

    def configs_of(self, options: argparse.Namespace) -> list[Any]:
        """Settings of the trainings that are asked for, all of which can be."""
        opt.check_limits(RunOptions, options)
        if options.preset and options.resume:
            raise ValueError("--preset: expected none with --resume, which takes the checkpoint's settings")
        if options.preset and options.preset not in self.presets:
            raise ValueError(f"--preset: expected one of {', '.join(self.presets)}, got {options.preset!r}")
        if options.seeds and options.seed is not None:
            raise ValueError("--seed: expected none with --seeds")
        if options.seeds and options.resume:
            raise ValueError("--seeds: expected one seed with --resume")
        if options.seeds and len(set(options.seeds)) < len(options.seeds):
            raise ValueError(f"--seeds: expected different ones, got {options.seeds}")
        config = self.config_of(options)
        configs = [replace(config, seed=seed) for seed in options.seeds or [config.seed]]
        for one in configs:
            one.check()
            one.check_effects(opt.given(self.config, options))
        if options.compile == "yes" and not config.compiles:
            raise ValueError("--compile: expected auto or no, there is no update here that can be compiled")
        return configs

    def config_of(self, options: argparse.Namespace) -> Any:
        """What was given, then the preset, then the defaults; or a checkpoint's, with what was given."""
        given = opt.given(self.config, options)
        if not options.resume:
            family = opt.family_of(given.get("task", self.config.task))
            preset = self.presets[options.preset or opt.preset_of(self.presets, family)]
            return self.config(**{**opt.preset_values(self.config, preset), **given})
        if options.resume.is_dir():
            options.resume = options.resume / CHECKPOINT
        try:
            state = load_checkpoint(options.resume)
        except (ValueError, OSError) as error:
            raise ValueError(f"--resume: {error}") from error
        saved = state["config"]
        # What is not there may have come later, unless it is what a training is kept by.
        known = {one.name: one.metadata.get("kept", False) for one in fields(self.config)}
        if not saved.keys() <= known.keys() or any(known[name] for name in known.keys() - saved.keys()):
            raise ValueError(f"--resume: expected a checkpoint of {self.name}, got {options.resume}")
        # What changes the last digits is as it was, unless told otherwise.
        if options.compile == "auto" and "compile" in state:
            options.compile = "yes" if state["compile"] else "no"
        if not options.torch_threads and state.get("threads", math.inf) <= _processors():
            options.torch_threads = state["threads"]
        return self.config(**saved).resumed_with(given)

    def folders_of(self, configs: Sequence[Any], options: argparse.Namespace) -> list[Path]:
        """Of each training. Raises ValueError: an earlier one is there, and is not to be overwritten."""
        output = options.output or Path("runs")
        folders = [output / f"{self.name}-{_file_name(config)}-{config.seed}" for config in configs]
        if options.resume and not options.output:
            folders = [options.resume.parent]
        for folder in folders:
            path = folder / CHECKPOINT
            if path.is_file() and not options.overwrite and not _is_that(path, options.resume):
                raise ValueError(
                    f"{folder} holds an earlier training: --resume {path} goes on with it, "
                    "another --output keeps it, --overwrite does not"
                )
        return folders

    def begin(self, config: Any, options: argparse.Namespace, folder: Path) -> Training[Any]:
        """Makes a training, as a checkpoint left it where there is one, and its folder."""
        is_small = opt.family_of(config.task) != "atari"
        torch.set_num_threads(options.torch_threads or (1 if is_small else torch.get_num_threads()))
        pays = is_small and config.compiles and config.num_updates >= COMPILE_FROM
        compile = options.compile == "yes" or (options.compile == "auto" and pays)
        training = self.training(config, folder, compile=compile)
        try:
            if options.resume:
                _go_on(training, options.resume)
            if options.video:
                check_video(lambda: training.evaluation_env(1, render=True))
            if options.logger:
                training.curve.logger = open_logger(options.logger, folder)
            save_json(folder / "config.json", asdict(config))
            stale = {EVALUATION}  # of other weights
            if not _is_that(folder / CHECKPOINT, options.resume):
                stale = RESULTS - ({CURVE} if options.resume else set())  # which has just been written
            for file in (folder / name for name in stale):
                if file.is_file():
                    file.unlink()
        except BaseException:
            training.close()
            if training.curve.logger is not None:
                close_logger(training.curve.logger)
            raise
        return training


def _processors() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _file_name(config: Any) -> str:
    task: str = config.task.replace("/", "-").replace(":", "-")
    return task


def _is_that(file: Path, checkpoint: Path | None) -> bool:
    """Whether this file is the one that a training goes on from."""
    return checkpoint is not None and file.exists() and file.samefile(checkpoint)


def _go_on(training: Training[Any], path: Path) -> None:
    """Goes on from a checkpoint; one of other networks or envs is a ``ValueError``."""
    state = load_checkpoint(path)
    if "not_whole" in state:
        raise ValueError(
            f"--resume: expected a checkpoint of simulators, too, got {path}: {state['not_whole']}"
        )
    try:
        training.load_state_dict(state)
        if not training.is_finite:
            raise ValueError("its weights are not finite")
    except (RuntimeError, ValueError, KeyError) as error:
        raise ValueError(f"--resume: expected settings that {path} can go on with: {error}") from error


class Run:
    """A training from its begin to its end, with what it leaves in its folder.

    Args:
        program: that it belongs to.
        training: that was begun.
        options: of the run.
    """

    def __init__(self, program: Program, training: Training[Any], options: argparse.Namespace) -> None:
        self.program, self.training, self.options = program, training, options
        self.was_stopped = False
        self.path = training.curve.folder / CHECKPOINT
        self.last: Path | None = options.resume  # the file from which this training can go on
        self.returns: list[float] = []  # of the evaluation
        self.not_whole = ""  # why there are networks only in the file

    def train(self) -> bool:
        """Trains; returns whether weights stayed finite, and all could be written."""
        training, options = self.training, self.options
        total, saved = training.num_iterations * training.frames_per_batch, time.monotonic()
        try:
            with StopRequest() as stop, progress_bar(total, training.frames, not options.quiet) as bar:
                bar.set_postfix_str("compiling the update" if training.compile else "first batch")
                while not (training.is_over or stop.made or training.curve.has_reached(options.until_return)):
                    try:
                        is_finite = iterate_to_finite_weights(training)
                    except (EnvFailure, ConnectionError) as error:
                        warn(f"the training ends here: {first_line(error)}")
                        training.ending = "failed"
                        self.save_failed(first_line(error))
                        break
                    if not is_finite:
                        training.ending = "diverged"
                        break
                    bar.update(training.frames_per_batch)
                    bar.set_postfix_str(training.curve.told)
                    if time.monotonic() - saved > options.checkpoint_seconds:
                        self.save()
                        saved = time.monotonic()
                else:
                    training.ending = "stopped" if stop.made else ""
                is_saved = training.ending in ("", "stopped") and self.save()
                self.was_stopped = stop.made  # perhaps meanwhile
            return self.finish() and is_saved
        finally:
            training.close()
            if training.curve.logger is not None:
                close_logger(training.curve.logger)

    def save(self) -> bool:
        """Saves all that the training goes on from; where simulators cannot be saved, what it has learned."""
        try:
            state = self.training.state_dict()
        except NotImplementedError as error:
            state = {"not_whole": first_line(error), **self.training.networks()}
        except (EnvFailure, ConnectionError) as error:  # of a batch ahead; the next iteration raises it, too
            warn(f"{self.path} cannot be written: {first_line(error)}")
            return False
        return self._save(state)

    def save_failed(self, reason: str) -> None:
        """Saves what was learned before envs failed, unless there is a whole checkpoint."""
        if self.not_whole or not _is_that(self.path, self.last):
            self._save({"not_whole": reason, **self.training.networks()})

    def _save(self, state: dict[str, Any]) -> bool:
        program, config = self.program.like or self.program.name, asdict(self.training.config)
        try:
            save_checkpoint(self.path, {**state, "config": config, "program": program})
        except OSError as error:
            warn(str(error))
            return False
        self.last, self.not_whole = self.path, state.get("not_whole", "")
        return True

    def finish(self) -> bool:
        """Draws, evaluates, records, and says where the time went; what has diverged is not played.

        Returns:
            Whether all of that could be written.
        """
        training, options, config = self.training, self.options, self.training.config
        folder, curve = training.curve.folder, training.curve
        title, picture = f"{self.program.title} on {config.task} (seed {config.seed})", folder / "curve.png"
        went_well = [
            could(picture, plot_curves, [curve.rows], title, picture),
            could(folder, training.draw, folder),
        ]
        print(
            f"{config.task}, seed {config.seed}: {training.frames} frames in {training.seconds:.1f} s "
            f"({training.frames / max(training.seconds, 1e-9):.0f} frames/s), {curve.told}; {folder}"
        )
        if training.ending == "diverged":
            left = f"{self.last} holds the last finite ones" if self.last else "none were saved"
            lost = f"the training has diverged: weights are not finite after {training.frames} frames; {left}"
            print(lost, file=sys.stderr)
        elif self.not_whole:
            print(f"The checkpoint holds networks only, no training goes on from it: {self.not_whole}")
        elif training.ending and self.last:
            print(f"{training.ending.capitalize()}; go on with --resume {self.last}")
        if options.evaluate and not training.ending and not self.was_stopped:
            went_well.append(could(folder / EVALUATION, self.evaluate, options.evaluate))
        if options.video and training.ending in ("", "stopped"):
            went_well.append(could(folder / "video", self.record))
        print(training.clock.summary())
        return all(went_well)

    def evaluate(self, episodes: int) -> None:
        """Plays some episodes, and leaves their returns in the training's folder."""
        print(f"Evaluation, {episodes} episodes: ", end="", flush=True)
        with closing(self.training.evaluation_env(episodes)) as env:
            self.returns, unended = evaluate(env, self.training.actor)
        returns = self.returns
        print(mean_and_spread(returns), f"({unended} had not ended when it was cut off)" * (unended > 0))
        save_json(self.path.with_name(EVALUATION), {"returns": returns, "mean": fmean(returns)})

    def record(self) -> None:
        """Leaves a video of an episode in the training's folder, and sends it to the logger."""
        print("Video: ", end="", flush=True)
        with closing(self.training.evaluation_env(1, render=True)) as env:
            video = record_video(env, self.training.actor)
        path = video.save(self.path.with_name("video"))
        print(path if video.is_whole else f"{path} (the beginning of an episode)")
        if self.training.curve.logger is not None:
            log_video(self.training.curve.logger, video, path, self.training.frames)


def load_policy(
    folder: str | Path, num_envs: int = 1, *, render: bool = False
) -> tuple[Callable[[TensorDictBase], TensorDictBase], EnvBase]:
    """See :func:`torchrl_pool.examples.load_policy`."""
    path = Path(folder)
    state = load_checkpoint(path / CHECKPOINT if path.is_dir() else path)
    if "program" not in state:
        raise ValueError(f"expected a checkpoint that names its program, got {path}, of an earlier release")
    program = importlib.import_module(f"torchrl_pool.examples.{state['program']}").PROGRAM
    program.prepare()
    alone = {
        "num_envs": num_envs,
        "architecture": "synchronous",
        "actors": 1,
        "population": 1,
        "parallel": False,
    }
    known = {one.name for one in fields(program.config)}
    learned = state
    if "members" in state:  # a population's best
        members = [one["state"] for one in state["members"]]
        learned = max(members, key=lambda one: fmean(one["curve"]["returns"] or [-math.inf]))
    config = {name: value for name, value in {**learned["config"], **alone}.items() if name in known}
    with tempfile.TemporaryDirectory() as nothing:
        training = program.training(program.config(**config), Path(nothing))
    try:
        training.load_networks(learned)
        for parameter in training.actor.parameters():
            parameter.requires_grad_(False)
        return training.actor, training.evaluation_env(num_envs, render=render)
    finally:
        training.close()
