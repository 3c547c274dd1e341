"""What makes a program of a training: its command line, its folder, its end."""

from __future__ import annotations

import argparse
import importlib.util
import math
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from torchrl_pool import EnvFailure
from torchrl_pool._core import available_cpus
from torchrl_pool.examples.command_line import count, number, threads
from torchrl_pool.examples.envs import GYMNASIUM, family_of, pool_of
from torchrl_pool.examples.settings import flag
from torchrl_pool.examples.training import (
    Checkpoint,
    Training,
    iterate_to_finite_weights,
    load_training,
)
from torchrl_pool.examples.training_run import (
    WINDOW,
    Row,
    StopRequest,
    could,
    evaluate,
    first_line,
    load_checkpoint,
    mean_and_spread,
    plot_curves,
    progress_bar,
    record_video,
    save_json,
    warn,
)

EVALUATION = "evaluation.json"
CHECKPOINT = "checkpoint.pt"
# What an earlier training may have left that this one need not write again.
RESULTS = {CHECKPOINT, EVALUATION, "curve.csv", "curve.png", "lag.png", "video.mp4", "video.gif"}
RESULTS |= {"population.csv", "population.png"}
FAMILIES = {"atari": "a game of Atari's", GYMNASIUM: "gymnasium:ID"}

COMPILE_FROM = 30_000  # updates of a small network, after which compiling has paid


def check_films(training: Training[Any]) -> None:
    """Raises ValueError: its env draws no pictures, or nothing makes a film of them."""
    if importlib.util.find_spec("imageio") is None:
        raise ValueError("--video: needs imageio: pip install torchrl_pool[examples]")
    try:
        with closing(training.evaluation_env(1, films=True)) as env:
            env.reset()
            pool_of(env).render(0)
    except (RuntimeError, AttributeError, ImportError) as error:  # what OpenGL's libraries say, too
        raise ValueError(f"--video: expected a task that can be drawn: {first_line(error)}") from error


def check_effects(config: Any, options: argparse.Namespace) -> None:
    """Raises ValueError: an option would do nothing for this task, or without another one."""
    family = family_of(config.task)
    defaults = {one.name: one.default for one in fields(config)}
    for one in fields(config):
        if getattr(options, one.name) in (None, one.default):
            continue
        of, needed = one.metadata.get("family", family), one.metadata.get("needs")
        if of != family:
            raise ValueError(f"{flag(one.name)}: expected {FAMILIES[of]} as --task, got {config.task!r}")
        if needed and getattr(config, needed) == (off := defaults[needed]):
            other = "" if off is False else f" other than {off}"
            raise ValueError(f"{flag(one.name)}: expected {flag(needed)}{other} with it")


def compute_as_begun(options: argparse.Namespace, state: Mapping[str, Any]) -> None:
    """What is not said otherwise, and changes the last digits, is as it was when the checkpoint was made."""
    if options.compile == "auto" and "compile" in state:
        options.compile = "yes" if state["compile"] else "no"
    if not options.torch_threads and state.get("threads", math.inf) <= available_cpus():
        options.torch_threads = state["threads"]


def is_that(file: Path, checkpoint: Path | None) -> bool:
    """Whether this file is the one that a training goes on from."""
    return checkpoint is not None and file.exists() and file.samefile(checkpoint)


def check_free(folders: Sequence[Path]) -> None:
    """Raises ValueError: an earlier training is in one of them."""
    for folder in folders:
        if (folder / CHECKPOINT).is_file():
            raise ValueError(
                f"{folder} holds an earlier training: --resume {folder / CHECKPOINT} goes on with it, "
                "another --output keeps it, --overwrite does not"
            )


@dataclass(frozen=True)
class Program:
    """A training program: ``Program(…).main()`` is ``python -m torchrl_pool.examples.NAME``.

    Args:
        name: the module's.
        title: of the algorithm.
        source: where it was published.
        config: its settings.
        presets: by name, where they are from and what they set.
        preset_for: the preset of a family of tasks.
        preset: that of all other families.
        training: makes the :class:`Training` of ``(config, folder, compile=…)``.
    """

    name: str
    title: str
    source: str
    config: type[Any]
    presets: Mapping[str, tuple[str, Mapping[str, Any]]]
    preset_for: Mapping[str, str]
    preset: str
    training: Callable[..., Training[Any]]

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Runs the command line; returns the exit status."""
        parser = self.parser()
        options = parser.parse_args(arguments)
        try:
            configs = self.configs_of(options)
            output = options.output or Path("runs")
            task = configs[0].task.replace("/", "-").replace(":", "-")
            places = [output / f"{self.name}-{task}-{config.seed}" for config in configs]
            if options.resume and not options.output:
                places = [options.resume.parent]
            if not options.overwrite:
                check_free([place for place in places if not is_that(place / CHECKPOINT, options.resume)])
            if options.timings:  # now, not after hours, it is seen that it cannot be written
                options.timings.parent.mkdir(parents=True, exist_ok=True)
                options.timings.open("a").close()
        except (ValueError, OSError) as error:
            parser.error(str(error))
        runs: dict[str, list[Row]] = {}  # by the seed, and how it ended before its end
        timings, went_well = [], []
        for config, place in zip(configs, places, strict=True):
            try:
                training = self.begin(config, options, place)
            except (ValueError, OSError, EnvFailure) as error:
                reason = first_line(error) if isinstance(error, EnvFailure) else str(error)
                if config is configs[0]:
                    parser.error(reason)
                print(f"seed {config.seed} is left out: {reason}", file=sys.stderr)
                went_well.append(False)
                continue
            try:
                went_well.append(self.train(training, options))
            except KeyboardInterrupt:  # after the training, which saves what there is and stops
                print(f"interrupted; {place}")
                return 128 + signal.SIGINT
            if training.curve.rows:
                label = f"{config.seed} ({training.ending})" if training.ending else str(config.seed)
                runs[label] = training.curve.rows
            timings.append(training.clock.timings())
            if training.was_stopped:
                break
        if len(runs) > 1:
            path = output / f"{self.name}-{task}.png"
            seeds = ", ".join(runs)
            title = f"{self.title} on {config.task}, seeds {seeds}"
            went_well.append(could(path, plot_curves, list(runs.values()), title, path))
            last = [rows[-1]["return"] for rows in runs.values()]
            print(f"Mean return over {len(last)} seeds, {seeds}: {mean_and_spread(last)}; {path}")
        if options.timings:
            total = {part: sum(one[part] for one in timings) for part in timings[0]}
            went_well.append(could(options.timings, save_json, options.timings, total))
        return 0 if all(went_well) else 1

    def parser(self) -> argparse.ArgumentParser:
        """The options: those of a run, and one for each field of the settings."""
        width = max(map(len, self.presets)) + 2
        presets = "\n".join(f"  {name:{width}}{source}" for name, (source, _) in self.presets.items())
        parser = argparse.ArgumentParser(
            prog=f"python -m torchrl_pool.examples.{self.name}",
            usage="%(prog)s [--task TASK] [--preset NAME] [the run] [settings]",
            description=f"Trains {self.title} ({self.source}) on a task of torchrl_pool. Leaves the\n"
            "learning curve (CSV, PNG, TensorBoard where it is installed) and a checkpoint in a folder.\n"
            "Ctrl-C saves and stops.",
            epilog=f"presets, with their sources:\n{presets}\n\nWhat is set by hand goes before a preset.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        run = parser.add_argument_group("the run")
        run.add_argument(
            "--preset", choices=self.presets, metavar="NAME", help="settings, listed below; default: by task"
        )
        run.add_argument("--seeds", type=int, nargs="+", metavar="SEED", help="one training after the other")
        run.add_argument(
            "--output", type=Path, metavar="FOLDER", help="default: runs, or where the checkpoint is"
        )
        run.add_argument(
            "--overwrite", action="store_true", help="where an earlier training has left its results"
        )
        run.add_argument("--resume", type=Path, metavar="CHECKPOINT", help="go on from it, with its settings")
        run.add_argument("--timings", type=Path, metavar="FILE.json", help="write where the time went")
        run.add_argument(
            "--evaluate", type=count, default=10, metavar="N", help="episodes at the end; default: 10"
        )
        run.add_argument(
            "--until-return",
            type=number,
            default=math.inf,
            metavar="R",
            help=f"stop when the mean of the last {WINDOW} episodes is that",
        )
        run.add_argument("--video", action="store_true", help="film an episode at the end (mp4 or gif)")
        run.add_argument(
            "--compile",
            choices=("auto", "yes", "no"),
            default="auto",
            help=f"torch.compile for updates; auto: small networks from {COMPILE_FROM:,} updates on, or as a "
            "resumed training began",
        )
        run.add_argument(
            "--torch-threads", type=threads, default=0, metavar="N", help="default: 1 for small networks"
        )
        run.add_argument("--checkpoint-seconds", type=number, default=300.0, metavar="S", help="default: 300")
        run.add_argument("--quiet", action="store_true", help="no progress bar")
        settings = parser.add_argument_group("settings (default: the preset's)")
        for one in fields(self.config):
            help = one.metadata["help"]
            if isinstance(one.default, bool):
                action = argparse.BooleanOptionalAction
                settings.add_argument(flag(one.name), action=action, default=None, help=help)
            else:
                choices = one.metadata.get("choices")
                kind = one.metadata.get("kind", type(one.default))
                metavar = None if choices else kind.__name__.upper()
                settings.add_argument(flag(one.name), type=kind, metavar=metavar, choices=choices, help=help)
        return parser

    def configs_of(self, options: argparse.Namespace) -> list[Any]:
        """Settings of the trainings that are asked for, all of which can be."""
        if options.preset and options.resume:
            raise ValueError(
                "--preset: expected none with --resume, which goes on with the checkpoint's settings"
            )
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
            check_effects(one, options)
        if options.compile == "yes" and not config.compiles:
            raise ValueError("--compile: expected auto or no, there is no update here that can be compiled")
        return configs

    def config_of(self, options: argparse.Namespace) -> Any:
        """What was given, then the preset, then the defaults; or a checkpoint's, with what was given."""
        given = {
            one.name: getattr(options, one.name)
            for one in fields(self.config)
            if getattr(options, one.name) is not None
        }
        if options.resume:
            state = load_checkpoint(options.resume)
            saved = state["config"]
            # What is not there may have come later, unless it is what a training is kept by.
            known = {one.name: one.metadata.get("kept", False) for one in fields(self.config)}
            if not saved.keys() <= known.keys() or any(known[name] for name in known.keys() - saved.keys()):
                raise ValueError(f"--resume: expected a checkpoint of {self.name}, got {options.resume}")
            compute_as_begun(options, state)
            return self.config(**saved).resumed_with(given)
        preset = options.preset
        if preset is None:
            family = family_of(given.get("task", self.config.task))
            preset = self.preset_for.get(family, self.preset)
        return self.config(**{**self.presets[preset][1], **given})

    def begin(self, config: Any, options: argparse.Namespace, folder: Path) -> Training[Any]:
        """Makes a training, as a checkpoint left it where there is one, and its folder."""
        is_small = family_of(config.task) != "atari"
        torch.set_num_threads(options.torch_threads or (1 if is_small else torch.get_num_threads()))
        pays = is_small and config.compiles and config.num_updates >= COMPILE_FROM
        compile = options.compile == "yes" or (options.compile == "auto" and pays)
        training = self.training(config, folder, compile=compile)
        try:
            if options.resume:
                load_training(training, options.resume)
            if options.video:
                check_films(training)
            save_json(folder / "config.json", asdict(config))
            stale = {EVALUATION}  # of other weights
            if not is_that(folder / CHECKPOINT, options.resume):
                stale = RESULTS - ({"curve.csv"} if options.resume else set())  # which has been written anew
            for file in (folder / name for name in stale):
                if file.is_file():
                    file.unlink()
        except BaseException:
            training.close()
            raise
        return training

    def train(self, training: Training[Any], options: argparse.Namespace) -> bool:
        """Trains, and leaves curve, checkpoint and what else was asked for in the training's folder.

        Returns:
            Whether weights stayed finite, and all of that could be written.
        """
        checkpoint = Checkpoint(training.curve.folder / CHECKPOINT, options.resume)
        total, saved = training.num_iterations * training.frames_per_batch, time.monotonic()
        try:
            with (
                StopRequest() as stop,
                progress_bar(total, training.frames, not options.quiet) as bar,
            ):
                bar.set_postfix_str("compiling the update" if training.compile else "first batch")
                while not (training.is_over or stop.made or training.curve.has_reached(options.until_return)):
                    try:
                        is_finite = iterate_to_finite_weights(training)
                    except EnvFailure as error:
                        warn(f"the training ends here: {first_line(error)}")
                        training.ending = "failed"
                        checkpoint.save_failed(training, first_line(error))
                        break
                    if not is_finite:
                        training.ending = "diverged"
                        break
                    bar.update(training.frames_per_batch)
                    bar.set_postfix_str(f"return {training.curve.mean_return:.1f}")
                    if time.monotonic() - saved > options.checkpoint_seconds:
                        checkpoint.save(training)
                        saved = time.monotonic()
                else:
                    training.ending = "stopped" if stop.made else ""
                is_saved = training.ending in ("", "stopped") and checkpoint.save(training)
                training.was_stopped = stop.made  # perhaps meanwhile
            return self.finish(training, options, checkpoint) and is_saved
        finally:
            training.close()

    def finish(self, training: Training[Any], options: argparse.Namespace, checkpoint: Checkpoint) -> bool:
        """Draws the curve, evaluates, films, and says where the time went.

        What has diverged is neither evaluated nor filmed.

        Returns:
            Whether all of that could be written.
        """
        config, folder = training.config, training.curve.folder
        title, picture = f"{self.title} on {config.task} (seed {config.seed})", folder / "curve.png"
        went_well = [
            could(picture, plot_curves, [training.curve.rows], title, picture),
            could(folder, training.draw, folder),
        ]
        print(
            f"{config.task}, seed {config.seed}: {training.frames} frames in {training.seconds:.1f} s "
            f"({training.frames / max(training.seconds, 1e-9):.0f} frames/s), "
            f"mean return {training.curve.mean_return:.1f}; {folder}"
        )
        if training.ending == "diverged":
            left = f"{checkpoint.last} holds the last finite ones" if checkpoint.last else "none were saved"
            print(
                f"the training has diverged: weights are not finite after {training.frames} frames; {left}",
                file=sys.stderr,
            )
        elif checkpoint.not_whole:
            print(f"The checkpoint holds networks only, no training goes on from it: {checkpoint.not_whole}")
        elif training.ending and checkpoint.last:
            print(f"{training.ending.capitalize()}; go on with --resume {checkpoint.last}")
        if options.evaluate and not training.ending and not training.was_stopped:
            went_well.append(could(folder / EVALUATION, self.evaluate, training, options.evaluate))
        if options.video and training.ending in ("", "stopped"):
            went_well.append(could(folder / "video", self.film, training))
        print(training.clock.summary())
        return all(went_well)

    def evaluate(self, training: Training[Any], episodes: int) -> None:
        """Plays some episodes, and leaves their returns in the training's folder."""
        print(f"Evaluation, {episodes} episodes: ", end="", flush=True)
        with closing(training.evaluation_env(episodes)) as env:
            returns, unended = evaluate(env, training.actor)
        print(mean_and_spread(returns), f"({unended} had not ended when it was cut off)" * (unended > 0))
        save_json(training.curve.folder / EVALUATION, {"returns": returns, "mean": fmean(returns)})

    def film(self, training: Training[Any]) -> None:
        """Leaves a video of an episode in the training's folder."""
        print("Video: ", end="", flush=True)
        with closing(training.evaluation_env(1, films=True)) as env:
            path, is_whole = record_video(env, training.actor, training.curve.folder / "video")
            print(path if is_whole else f"{path} (the beginning of an episode)")
