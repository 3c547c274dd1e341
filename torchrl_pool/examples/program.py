"""The command line of a training program: what it is given, and the trainings that it runs."""

from __future__ import annotations

import math
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, make_dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NoReturn

import torch

from torchrl_pool import EnvFailure
from torchrl_pool.examples import results, say_what_is_missing
from torchrl_pool.examples.options import (
    KEPT,
    PRESETS,
    RunOptions,
    check_effects,
    check_limits,
    expect,
    family_of,
    marks_of,
    preset_of,
)
from torchrl_pool.examples.results import Row, could, first_line, is_same_file
from torchrl_pool.examples.run import CHECKPOINT, Run, Train

try:
    import tyro
except ImportError as error:
    say_what_is_missing(error)

COMPILE_FROM = 30_000  # updates of a small network, after which compiling has paid


@dataclass(frozen=True)
class _Begin:
    """What decides which settings a command line begins with."""

    task: str | None = None
    preset: str | None = None
    resume: Path | None = None


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
        """By name, where they are from, the options that they stand for, and tasks that they are for."""
        found: Mapping[str, Any] = PRESETS[self.like or self.name]
        return found

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Runs the command line; returns the exit status."""
        self.prepare()
        try:
            options, config = self.parse(arguments)
            configs = [replace(config, seed=seed) for seed in options.seeds or [config.seed]]
            for one in configs:
                one.check()
            folders = self._folders_of(configs, options)
        except (ValueError, OSError) as error:
            self._refuse(error)
        runs, went_well = [], []
        for config, folder in zip(configs, folders, strict=True):
            try:
                run = self._begin(config, options, folder)
            except (ValueError, OSError, EnvFailure) as error:
                if config is configs[0]:
                    self._refuse(error)
                print(f"seed {config.seed} is left out: {_reason(error)}", file=sys.stderr)
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

    def _refuse(self, error: Exception) -> NoReturn:
        print(f"python -m torchrl_pool.examples.{self.name}: {_reason(error)}", file=sys.stderr)
        sys.exit(2)

    def parse(self, arguments: Sequence[str] | None = None) -> tuple[RunOptions, Any]:
        """How to run, and the settings: a preset's or a checkpoint's, but for those that are given.

        Raises:
            ValueError: they cannot be.
        """
        begin, _ = tyro.cli(_Begin, args=arguments, return_unknown_args=True, add_help=False)
        state: dict[str, Any] = {}
        if begin.resume:
            saved = "none with --resume, which takes the checkpoint's settings"
            expect(begin.preset is None, "preset", saved, begin.preset)
            path = begin.resume / CHECKPOINT if begin.resume.is_dir() else begin.resume
            try:
                state = results.load_checkpoint(path)
            except (ValueError, OSError) as error:
                raise ValueError(f"--resume: {error}") from error
            begun = self._saved(path, state["config"])
        else:
            names = ", ".join(self.presets)
            expect(begin.preset in (None, *self.presets), "preset", f"one of {names}", begin.preset)
            begun = self._preset(
                begin.preset or preset_of(self.presets, family_of(begin.task or self.config.task))
            )
        kind = make_dataclass("Options", [("run", RunOptions), ("settings", self.config)])
        asked: Any = tyro.cli(
            kind,
            prog=f"python -m torchrl_pool.examples.{self.name}",
            description=self._description(),
            args=arguments,
            default=kind(RunOptions(), begun),
            config=(tyro.conf.OmitArgPrefixes,),
        )
        options, settings = asked.run, asked.settings
        check_limits(options)
        several = options.seeds
        alone = settings.seed == begun.seed and not begin.resume
        expect(not several or alone, "seeds", "neither --seed nor --resume with it", several)
        expect(len(set(several)) == len(several), "seeds", "different ones", several)
        settings.check()
        check_effects(settings, begun)
        compiles = options.compile != "yes" or settings.compiles
        expect(compiles, "compile", "auto or no, since no update here can be compiled", options.compile)
        if not begin.resume:
            return options, settings
        for name, marks in marks_of(self.config).items():
            before, now = getattr(begun, name), getattr(settings, name)
            stays = now == before or KEPT not in marks
            expect(stays, name, f"{before} with --resume, as the training began", now)
        # What changes the last digits stays as it was, unless an option changes it.
        compile, threads = options.compile, options.torch_threads
        if compile == "auto" and "compile" in state:
            compile = "yes" if state["compile"] else "no"
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if not threads and state.get("threads", math.inf) <= processors:
            threads = state["threads"]
        return replace(options, resume=path, compile=compile, torch_threads=threads), settings

    def _description(self) -> str:
        lines = [
            f"Trains {self.title} ({self.source}) on a task of torchrl_pool. Leaves the learning curve",
            "(CSV, PNG), a checkpoint and an evaluation in a folder. Ctrl-C saves and stops.",
            "",
            "Presets (options given by hand override them; --preset NAME --help shows their values):",
        ]
        for name, preset in self.presets.items():
            families = ", ".join(preset.get("families", []))
            lines.append(f"  {name}: {preset['source']}" + (f" (default for {families})" if families else ""))
        return "\n".join(lines)

    def _preset(self, name: str) -> Any:
        return tyro.cli(self.config, args=shlex.split(self.presets[name]["options"]))

    def _saved(self, path: Path, saved: Mapping[str, Any]) -> Any:
        """A checkpoint's settings; what it does not know may have come later, unless it must be known."""
        marks = marks_of(self.config)
        fits = saved.keys() <= marks.keys() and not any(KEPT in marks[name] for name in marks.keys() - saved)
        expect(fits, "resume", f"a checkpoint of {self.name}", path)
        return self.config(**saved)

    def _folders_of(self, configs: Sequence[Any], options: RunOptions) -> list[Path]:
        """Of each training. Raises ValueError: an earlier one is there, and is not to be overwritten."""
        output = options.output or Path("runs")
        folders = [output / f"{self.name}-{_file_name(config.task)}-{config.seed}" for config in configs]
        if options.resume and not options.output:
            folders = [options.resume.parent]
        for path in (folder / CHECKPOINT for folder in folders):
            if path.is_file() and not options.overwrite and not is_same_file(path, options.resume):
                raise ValueError(
                    f"{path.parent} holds an earlier training: --resume {path} goes on with it, "
                    "another --output keeps it, --overwrite does not"
                )
        return folders

    def _begin(self, config: Any, options: RunOptions, folder: Path) -> Run:
        """Makes a training, as a checkpoint left it where there is one, and its folder."""
        is_small = family_of(config.task) != "atari"
        torch.set_num_threads(options.torch_threads or (1 if is_small else torch.get_num_threads()))
        pays = is_small and config.compiles and config.num_updates >= COMPILE_FROM
        compile = options.compile == "yes" or (options.compile == "auto" and pays)
        device = device_of(options.device, has_pictures=not is_small)
        storing = device_of(options.storing_device) if options.storing_device else device
        run = Run(self.train, config, folder, compile=compile, device=device, storing_device=storing)
        try:
            if options.resume:
                run.resume(options.resume)
            if options.video:
                results.check_video(lambda: run.evaluation_env(1, render=True))
            if options.logger:
                run.curve.logger = results.open_logger(options.logger, folder)
            results.save_json(folder / "config.json", asdict(config))
            run.clean_folder(options.resume)
        except BaseException:
            run.close()
            raise
        return run

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
            went_well.append(could(path, results.plot_curves, list(curves.values()), title, path))
            last = [one for rows in curves.values() if not math.isnan(one := rows[-1]["return"])]
            spread = results.described(last) if last else "no episode has ended yet"
            print(f"Return over {len(curves)} seeds, {names}: {spread}; {path}")
        returns = {run.config.seed: run.returns for run in runs if run.returns}
        if len(returns) > 1:
            path = folder / f"{self.name}-{_file_name(runs[0].config.task)}.json"
            went_well.append(could(path, results.save_json, path, results.summary(returns)))
            means = [fmean(one) for one in returns.values()]
            print(f"Evaluation over {len(means)} seeds: {results.described(means)}; {path}")
        return went_well


def device_of(asked: str, *, has_pictures: bool = False) -> torch.device:
    """The device that is asked for; ``"auto"`` is CUDA, where there is one, for pictures.

    Raises:
        ValueError: torch does not know it, or cannot use it.
    """
    if asked == "auto":
        return torch.device("cuda" if has_pictures and torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=torch.device(asked)).device  # with its index
    except (RuntimeError, AssertionError) as error:
        expected = f"a device that torch can use ({str(error).splitlines()[0]})"
        raise ValueError(f"--device: expected {expected}, got {asked}") from None


def _file_name(task: str) -> str:
    return task.replace("/", "-").replace(":", "-")


def _reason(error: Exception) -> str:
    return first_line(error) if isinstance(error, EnvFailure) else str(error)
