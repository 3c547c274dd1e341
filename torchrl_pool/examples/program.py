"""What makes a program of an algorithm: its command line, its seeds, their folders; and loads its policy."""

from __future__ import annotations

import argparse
import importlib
import math
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.envs import EnvBase

from torchrl_pool import EnvFailure
from torchrl_pool.examples import options as opt
from torchrl_pool.examples import seeds
from torchrl_pool.examples.envs import GYMNASIUM, family_of
from torchrl_pool.examples.options import RunOptions, expect, flag
from torchrl_pool.examples.results import (
    Row,
    could,
    first_line,
    is_same_file,
    load_checkpoint,
    save_json,
)
from torchrl_pool.examples.run import CHECKPOINT, CURVE, EVALUATION, Run, Train
from torchrl_pool.examples.video import check_video, open_logger

# What an earlier training may have left that this one need not write again.
RESULTS = {CHECKPOINT, EVALUATION, CURVE, "curve.png", "video.mp4", "video.gif"}
RESULTS |= {"population.csv", "population.png"}
COMPILE_FROM = 30_000  # updates of a small network, after which compiling has paid
FAMILIES = {"atari": "a game of Atari's", GYMNASIUM: "gymnasium:ID"}


@dataclass(frozen=True)
class Program:
    """A training program: ``Program(…).main()`` is ``python -m torchrl_pool.examples.NAME``.

    Args:
        name: the module's.
        title: of the algorithm.
        source: where it was published.
        config: its settings.
        train: the algorithm.
        like: the program with the same presets and the same policy; default: itself.
        prepare: is called first.
    """

    name: str
    title: str
    source: str
    config: type[Any]
    train: Train
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
        except (ValueError, OSError) as error:
            parser.error(str(error))
        runs, went_well = [], []
        for config, folder in zip(configs, folders, strict=True):
            try:
                run = self.begin(config, options, folder)
            except (ValueError, OSError, EnvFailure) as error:
                reason = first_line(error) if isinstance(error, EnvFailure) else str(error)
                if config is configs[0]:
                    parser.error(reason)
                print(f"seed {config.seed} is left out: {reason}", file=sys.stderr)
                went_well.append(False)
                continue
            try:
                went_well.append(run.train(options, self.title, self.like or self.name))
            except KeyboardInterrupt:  # after the training, which saves what there is and stops
                print(f"interrupted; {folder}")
                return 128 + signal.SIGINT
            runs.append(run)
            if run.was_stopped:
                break
        went_well += self._compare(runs, folders[0].parent)
        return 0 if all(went_well) else 1

    def _compare(self, runs: Sequence[Run], folder: Path) -> list[bool]:
        """Draws and sums up several seeds; returns whether each file could be written."""
        went_well = []
        curves: dict[str, list[Row]] = {}  # by the seed, and how it ended before its end
        for run in runs:
            if run.curve.rows:
                seed = run.config.seed
                curves[f"{seed} ({run.ending})" if run.ending else str(seed)] = run.curve.rows
        if len(curves) > 1:
            task = runs[0].config.task
            path, names = folder / f"{self.name}-{_file_name(task)}.png", ", ".join(curves)
            title = f"{self.title} on {task}, seeds {names}"
            went_well.append(could(path, seeds.plot_curves, list(curves.values()), title, path))
            last = [one for rows in curves.values() if not math.isnan(one := rows[-1]["return"])]
            spread = seeds.described(last) if last else "no episode has ended yet"
            print(f"Return over {len(curves)} seeds, {names}: {spread}; {path}")
        returns = {run.config.seed: run.returns for run in runs if run.returns}
        if len(returns) > 1:
            path = folder / f"{self.name}-{_file_name(runs[0].config.task)}.json"
            went_well.append(could(path, save_json, path, seeds.summary(returns)))
            means = [fmean(one) for one in returns.values()]
            print(f"Evaluation over {len(means)} seeds: {seeds.described(means)}; {path}")
        return went_well

    def parser(self) -> argparse.ArgumentParser:
        """The options: those of a run, and one for each field of the settings."""
        parser = argparse.ArgumentParser(
            prog=f"python -m torchrl_pool.examples.{self.name}",
            usage="%(prog)s [--task TASK] [--preset NAME] [the run] [settings]",
            description=f"Trains {self.title} ({self.source}) on a task of torchrl_pool. Leaves the\n"
            "learning curve (CSV, PNG), a checkpoint and an evaluation in a folder. Ctrl-C saves and stops.",
            epilog="presets, and the options that each stands for (options given by hand override them):\n"
            + opt.described_presets(self.presets),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        opt.add_options(parser.add_argument_group("the run"), RunOptions, with_defaults=True)
        settings = parser.add_argument_group("settings (without a preset's)")
        opt.add_options(settings, self.config, with_defaults=False)
        return parser

    def configs_of(self, options: argparse.Namespace) -> list[Any]:
        """Settings of the trainings that are asked for, all of which can be."""
        opt.check_limits(RunOptions, options)
        preset, several = options.preset, options.seeds or []
        saved = "none with --resume, which takes the checkpoint's settings"
        expect(not (preset and options.resume), "preset", saved, preset)
        expect(not preset or preset in self.presets, "preset", f"one of {', '.join(self.presets)}", preset)
        alone = options.seed is None and not options.resume
        expect(not several or alone, "seeds", "neither --seed nor --resume with it", several)
        expect(len(set(several)) == len(several), "seeds", "different ones", several)
        config = self.config_of(options)
        configs = [replace(config, seed=seed) for seed in several or [config.seed]]
        for one in configs:
            one.check()
            _check_effects(one, opt.given(self.config, options))
        compiles = options.compile != "yes" or config.compiles
        expect(compiles, "compile", "auto or no, since no update here can be compiled", options.compile)
        return configs

    def config_of(self, options: argparse.Namespace) -> Any:
        """What was given, then the preset, then the defaults; or a checkpoint's, with what was given."""
        given = opt.given(self.config, options)
        if options.resume:
            return self._resumed_config(options, given)
        family = family_of(given.get("task", self.config.task))
        preset = self.presets[options.preset or opt.preset_of(self.presets, family)]
        return self.config(**{**opt.preset_values(self.config, preset), **given})

    def _resumed_config(self, options: argparse.Namespace, given: Mapping[str, Any]) -> Any:
        if options.resume.is_dir():
            options.resume = options.resume / CHECKPOINT
        try:
            state = load_checkpoint(options.resume)
        except (ValueError, OSError) as error:
            raise ValueError(f"--resume: {error}") from error
        saved = state["config"]
        # What is not there may have come later, unless it is what a training is kept by.
        kept = {one.name: one.metadata.get("kept", False) for one in fields(self.config)}
        fits = saved.keys() <= kept.keys() and not any(kept[name] for name in kept.keys() - saved.keys())
        expect(fits, "resume", f"a checkpoint of {self.name}", options.resume)
        for name, value in given.items():
            stays = not kept[name] or value == saved[name]
            expect(stays, name, f"{saved[name]} with --resume, as the training began", value)
        # What changes the last digits stays as it was, unless an option changes it.
        if options.compile == "auto" and "compile" in state:
            options.compile = "yes" if state["compile"] else "no"
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if not options.torch_threads and state.get("threads", math.inf) <= processors:
            options.torch_threads = state["threads"]
        return self.config(**{**saved, **given})

    def folders_of(self, configs: Sequence[Any], options: argparse.Namespace) -> list[Path]:
        """Of each training. Raises ValueError: an earlier one is there, and is not to be overwritten."""
        output = options.output or Path("runs")
        folders = [output / f"{self.name}-{_file_name(config.task)}-{config.seed}" for config in configs]
        if options.resume and not options.output:
            folders = [options.resume.parent]
        for folder in folders:
            path = folder / CHECKPOINT
            if path.is_file() and not options.overwrite and not is_same_file(path, options.resume):
                raise ValueError(
                    f"{folder} holds an earlier training: --resume {path} goes on with it, "
                    "another --output keeps it, --overwrite does not"
                )
        return folders

    def begin(self, config: Any, options: argparse.Namespace, folder: Path) -> Run:
        """Makes a training, as a checkpoint left it where there is one, and its folder."""
        is_small = family_of(config.task) != "atari"
        torch.set_num_threads(options.torch_threads or (1 if is_small else torch.get_num_threads()))
        pays = is_small and config.compiles and config.num_updates >= COMPILE_FROM
        compile = options.compile == "yes" or (options.compile == "auto" and pays)
        run = Run(self.train, config, folder, compile=compile)
        try:
            if options.resume:
                _resume(run, options.resume)
            if options.video:
                check_video(lambda: run.evaluation_env(1, render=True))
            if options.logger:
                run.curve.logger = open_logger(options.logger, folder)
            save_json(folder / "config.json", asdict(config))
            stale = {EVALUATION}  # of other weights
            if not is_same_file(folder / CHECKPOINT, options.resume):
                stale = RESULTS - ({CURVE} if options.resume else set())  # which has just been written
            for file in (folder / name for name in stale):
                if file.is_file():
                    file.unlink()
        except BaseException:
            run.close()
            raise
        return run


def _file_name(task: str) -> str:
    return task.replace("/", "-").replace(":", "-")


def _check_effects(config: Any, set_by_hand: Mapping[str, Any]) -> None:
    """Raises ValueError: an option would do nothing for this task, or without another one."""
    family = family_of(config.task)
    defaults = {one.name: one.default for one in fields(config)}
    for one in fields(config):
        if set_by_hand.get(one.name, one.default) == one.default:
            continue
        of, needed = one.metadata.get("family", family), one.metadata.get("needs")
        expect(of == family, one.name, f"{FAMILIES.get(of)} as --task", repr(config.task))
        if needed and getattr(config, needed) == (off := defaults[needed]):
            other = "" if off is False else f" other than {off}"
            raise ValueError(f"{flag(one.name)}: expected {flag(needed)}{other} with it")


def _resume(run: Run, path: Path) -> None:
    """Goes on from a checkpoint; one of other networks or envs is a ``ValueError``."""
    state = load_checkpoint(path)
    why_not = f"{path}: {state.get('not_whole')}"
    expect("not_whole" not in state, "resume", "a checkpoint of simulators, too", why_not)
    try:
        run.load_state_dict(state)
        if not run.is_finite:
            raise ValueError("its weights are not finite")
    except (RuntimeError, ValueError, KeyError) as error:
        raise ValueError(f"--resume: expected settings that {path} can go on with: {error}") from error


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
    if "members" in state:  # a population's best
        state = max(state["members"], key=lambda one: fmean(one["curve"]["returns"] or [-math.inf]))
    alone = {"num_envs": num_envs, "architecture": "synchronous", "actors": 1, "population": 1}
    known = {one.name for one in fields(program.config)}
    config = {**state["config"], **alone, "parallel": False}
    config = program.config(**{name: value for name, value in config.items() if name in known})
    with tempfile.TemporaryDirectory() as nothing:
        run = Run(program.train, config, Path(nothing))
    try:
        run.load_networks(state)
        for parameter in run.actor.parameters():
            parameter.requires_grad_(False)
        return run.actor, run.evaluation_env(num_envs, render=render)
    finally:
        run.close()
