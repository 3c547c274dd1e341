"""What runs a training: its iterations and checkpoints, its command line, and several seeds of it."""

from __future__ import annotations

import copy
import importlib
import math
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, make_dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal, NoReturn

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.envs import EnvBase, InitTracker
from torchrl.modules import get_primers_from_module

from torchrl_pool import EnvFailure
from torchrl_pool.examples import results, say_what_is_missing
from torchrl_pool.examples.envs import make_env, normalizer_of
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
from torchrl_pool.examples.results import Curve, Policy, Row, could, first_line, is_same_file, warn

try:
    import tyro
    from tqdm import tqdm
except ImportError as error:
    say_what_is_missing(error)

CHECKPOINT, EVALUATION, CURVE = "checkpoint.pt", "evaluation.json", "curve.csv"
# What an earlier training may have left that this one need not write again.
RESULTS = {CHECKPOINT, EVALUATION, CURVE, "curve.png", "video.mp4", "video.gif"}
RESULTS |= {"population.csv", "population.png"}
COMPILE_FROM = 30_000  # updates of a small network, after which compiling has paid
Train = Callable[[Any, "Run"], Iterator[Row]]
"""An algorithm: of its settings and its run it builds everything, and hands :meth:`Run.begin` on. Each row
after that one is an iteration."""


class Run:
    """One training.

    Args:
        train: the algorithm.
        config: its settings.
        folder: what is left goes there.
        compile: whether updates are compiled.
    """

    env: EnvBase
    actor: Any  # the policy, as it is evaluated
    frames_per_batch: int
    num_iterations: int

    def __init__(self, train: Train, config: Any, folder: Path, *, compile: bool = False) -> None:
        self.config, self.folder, self.compile = config, folder, compile
        self.curve = Curve(folder)
        self.iteration, self.seconds = 0, 0.0
        self.ending: Literal["", "stopped", "diverged", "failed"] = ""  # how it has ended before its end
        self.was_stopped = False
        self.parts: dict[str, Any] = {}
        self.members: list[Run] = []  # of a population
        self.adapted: Sequence[str] = ()  # settings that are changed while it trains
        self.returns: list[float] = []  # of the evaluation
        self._saved_part = ""  # why there are networks only in the last checkpoint
        self._rows = train(config, self)
        next(self._rows)

    # ---- what algorithms call

    def begin(self, env: EnvBase, actor: Any, frames_per_batch: int, **parts: Any) -> Row:
        """Takes note of what an algorithm has built; to be yielded, as an empty row.

        Args:
            env: that it trains in.
            actor: its policy, as it is to be evaluated.
            frames_per_batch: env steps of an iteration.
            parts: what has a state of its own, which checkpoints hold: ``actors`` first, which may be
                collecting, then ``update``, which has the optimizer.
        """
        self.env, self.actor, self.frames_per_batch, self.parts = env, actor, frames_per_batch, parts
        self.num_iterations = math.ceil(self.config.total_frames / frames_per_batch)
        return {}

    def iterations(self) -> Iterator[int]:
        """The numbers of the iterations that are still to be made."""
        while self.iteration < self.num_iterations:
            yield self.iteration

    def note(self, batch: TensorDictBase) -> None:
        """Adds the episodes that end in a batch ``[N, T]`` to the curve; ends them with lives if asked to."""
        after = batch.get("next")
        if after.get("done").any():
            self.curve.note_episodes(batch)
        if self.config.episodic_life:
            for key in ("done", "terminated"):
                after.set(key, after.get(key) | after.get("life_lost"))

    # ---- iterations

    @property
    def frames(self) -> int:
        """Env steps until now."""
        return self.iteration * self.frames_per_batch

    @property
    def is_over(self) -> bool:
        return self.iteration >= self.num_iterations

    @property
    def learners(self) -> list[Run]:
        """The members of a population, or this one."""
        return self.members or [self]

    @property
    def best(self) -> Run:
        """Of the learners the one whose last episodes went best."""
        return max(self.learners, key=lambda one: one.curve.objective)

    @property
    def is_finite(self) -> bool:
        """Whether all weights are finite numbers."""
        groups = [group for one in self.learners for group in one.parts["update"].optimizer.param_groups]
        return all(bool(weights.isfinite().all()) for group in groups for weights in group["params"])

    def iterate(self) -> None:
        """Makes an iteration, and adds its row to the curve."""
        start, waited = time.perf_counter(), self._waited
        figures = next(self._rows)
        self.iteration += 1
        seconds = time.perf_counter() - start
        self.seconds += seconds
        speed = {"seconds": self.seconds, "steps_per_second": self.frames_per_batch / seconds}
        collecting = {"collecting_seconds": self._waited - waited}
        self.curve.add({"frames": self.frames, **speed, **collecting, **figures})

    @property
    def _waited(self) -> float:
        """Seconds that learners have waited for batches."""
        return math.fsum(one.parts["actors"].seconds for one in self.learners)

    def _stays_finite(self) -> bool:
        """Makes an iteration; returns whether weights are finite. Errors that NaNs lead to are not raised."""
        try:
            self.iterate()
        except Exception:
            if self.is_finite:
                raise
        return self.is_finite

    # ---- checkpoints

    def networks(self) -> dict[str, Any]:
        """What has been learned: weights, and statistics of observations."""
        if self.members:
            return {
                "members": [
                    {**one.networks(), "config": asdict(one.config), "curve": one.curve.state_dict()}
                    for one in self.members
                ]
            }
        normalizer = normalizer_of(self.env)
        statistics = {} if normalizer is None else copy.deepcopy(dict(normalizer.state_dict()))
        return {"update": self.parts["update"].state_dict(), "normalizer": statistics}

    def load_networks(self, state: dict[str, Any]) -> None:
        """Takes over what another training has learned."""
        self.parts["update"].load_state_dict(state["update"])
        normalizer = normalizer_of(self.env)
        if normalizer is not None:
            normalizer.load_state_dict(state["normalizer"])

    def state_dict(self) -> dict[str, Any]:
        """All that the rest of the training depends on: tensors, numbers, texts and bytes."""
        parts = {name: part.state_dict() for name, part in self.parts.items()}  # actors may draw until then
        return {
            "config": asdict(self.config),
            "compile": self.compile,
            "threads": torch.get_num_threads(),
            "iteration": self.iteration,
            "seconds": self.seconds,
            "curve": self.curve.state_dict(),
            "generator": torch.get_rng_state(),
            **({"members": [one.state_dict() for one in self.members]} if self.members else self.networks()),
            **parts,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state; torch's generator goes back too."""
        self.set(**{name: state["config"][name] for name in self.adapted})
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        for one, saved in zip(self.members, state.get("members", ()), strict=True):
            one.load_state_dict(saved)
        self.iteration, self.seconds = state["iteration"], state["seconds"]
        self.curve.load_state_dict(state["curve"])
        if self.config.learning_rate != state["config"]["learning_rate"]:  # else it may have been adapted
            self.set(learning_rate=self.config.learning_rate)
        torch.set_rng_state(state["generator"])

    def set(self, **settings: Any) -> None:
        """Changes settings that the algorithm looks at before each iteration, or that are its optimizer's."""
        self.config = replace(self.config, **settings)
        if "learning_rate" in settings and "update" in self.parts:
            for group in self.parts["update"].optimizer.param_groups:
                group["lr"] = settings["learning_rate"]

    # ---- from its beginning to its end

    def train(self, options: RunOptions, title: str, program: str) -> bool:
        """Trains, and leaves its results; returns whether weights stayed finite, and all could be written.

        Args:
            options: of the program.
            title: of pictures.
            program: what loads the policy.
        """
        self._program, self._last = program, options.resume  # the file from which this training can go on
        total, saved = self.num_iterations * self.frames_per_batch, time.monotonic()
        bar_of: dict[str, Any] = {"unit": " frames", "unit_scale": True, "disable": options.quiet}
        try:
            with results.stop_request() as stop, tqdm(**bar_of, total=total, initial=self.frames) as bar:
                bar.set_postfix_str("compiling the update" if self.compile else "first batch")
                while not (self.is_over or stop.made or self.curve.has_reached(options.until_return)):
                    try:
                        is_finite = self._stays_finite()
                    except (EnvFailure, ConnectionError) as error:
                        warn(f"the training ends here: {first_line(error)}")
                        self.ending = "failed"
                        if self._saved_part or not is_same_file(self.folder / CHECKPOINT, self._last):
                            self._save({"not_whole": first_line(error), **self.networks()})
                        break
                    if not is_finite:
                        self.ending = "diverged"
                        break
                    bar.update(self.frames_per_batch)
                    bar.set_postfix_str(self.curve.progress)
                    if time.monotonic() - saved > options.checkpoint_seconds:
                        self.save()
                        saved = time.monotonic()
                else:
                    self.ending = "stopped" if stop.made else ""
                is_saved = self.ending in ("", "stopped") and self.save()
                self.was_stopped = stop.made  # perhaps meanwhile
            return self._finish(options, title) and is_saved
        finally:
            self.close()

    def save(self) -> bool:
        """Saves all that the training goes on from; where simulators cannot be saved, what it has learned."""
        try:
            state = self.state_dict()
        except NotImplementedError as error:
            state = {"not_whole": first_line(error), **self.networks()}
        except (EnvFailure, ConnectionError) as error:  # of a batch ahead; the next iteration raises it, too
            warn(f"{self.folder / CHECKPOINT} cannot be written: {first_line(error)}")
            return False
        return self._save(state)

    def _save(self, state: dict[str, Any]) -> bool:
        path = self.folder / CHECKPOINT
        try:
            results.save_checkpoint(path, {**state, "config": asdict(self.config), "program": self._program})
        except OSError as error:
            warn(str(error))
            return False
        self._last, self._saved_part = path, state.get("not_whole", "")
        return True

    def _finish(self, options: Any, title: str) -> bool:
        """Draws, evaluates and records what has not diverged; returns whether all could be written."""
        config, folder, curve = self.config, self.folder, self.curve
        picture, title = folder / "curve.png", f"{title} on {config.task} (seed {config.seed})"
        went_well = [could(picture, results.plot_curves, [curve.rows], title, picture)]
        seconds = max(self.seconds, 1e-9)
        collecting = sum(row["collecting_seconds"] for row in curve.rows)
        print(
            f"{config.task}, seed {config.seed}: {self.frames} frames in {self.seconds:.1f} s "
            f"({self.frames / seconds:.0f} frames/s, {collecting / seconds:.0%} of the time in collecting), "
            f"{curve.progress}; {folder}"
        )
        if self.ending == "diverged":
            left = f"{self._last} holds the last finite ones" if self._last else "none were saved"
            warn(f"the training has diverged: weights are not finite after {self.frames} frames; {left}")
        elif self._saved_part:
            print(f"The checkpoint holds networks only, no training goes on from it: {self._saved_part}")
        elif self.ending and self._last:
            print(f"{self.ending.capitalize()}; go on with --resume {self._last}")
        if options.evaluate and not self.ending and not self.was_stopped:
            went_well.append(could(folder / EVALUATION, self._evaluate, options.evaluate))
        if options.video and self.ending in ("", "stopped"):
            went_well.append(could(folder / "video", self._record))
        return all(went_well)

    def evaluation_env(self, num_envs: int, *, render: bool = False) -> EnvBase:
        """An env of its own, that normalizes with today's statistics and learns nothing."""
        for one in self.learners:
            one.parts["actors"].rest()
        if self.members:
            return self.best.evaluation_env(num_envs, render=render)
        normalizer = normalizer_of(self.env)
        frozen = None if normalizer is None else normalizer.frozen_copy()
        settings = replace(self.config, sign_rewards=False, episodic_life=False)
        env = make_env(settings, num_envs, self.config.seed + 1_000_000, frozen, render=render)
        if isinstance(self.actor, nn.Module):
            memory = get_primers_from_module(self.actor, warn=False)
            if memory is not None:
                env = env.append_transform(InitTracker()).append_transform(memory)
        return env

    def _evaluate(self, episodes: int) -> None:
        """Plays some episodes, and leaves their returns in the training's folder."""
        print(f"Evaluation, {episodes} episodes: ", end="", flush=True)
        with closing(self.evaluation_env(episodes)) as env:
            self.returns, unended = results.evaluate(env, self.best.actor)
        returns = self.returns
        spread = f"{fmean(returns):.1f} ± {stdev(returns) if len(returns) > 1 else 0:.1f}"
        print(spread, f"({unended} had not ended when it was cut off)" * (unended > 0))
        results.save_json(self.folder / EVALUATION, {"returns": returns, "mean": fmean(returns)})

    def _record(self) -> None:
        """Leaves a video of an episode in the training's folder, and sends it to the logger."""
        print("Video: ", end="", flush=True)
        with closing(self.evaluation_env(1, render=True)) as env:
            pictures, is_whole = results.record_video(env, self.best.actor)
        path = results.save_video(pictures, results.frame_rate(self.config.task), self.folder / "video")
        print(path if is_whole else f"{path} (the beginning of an episode)")
        if self.curve.logger is not None:
            results.log_video(self.curve.logger, pictures, path, self.frames)

    def close(self) -> None:
        """Ends threads, simulators and the logger."""
        for part in [*self.parts.values(), *self.members]:
            if hasattr(part, "close"):
                part.close()
        if self.curve.logger is not None:
            results.close_logger(self.curve.logger)
            self.curve.logger = None


# ---- the command line


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
        run = Run(self.train, config, folder, compile=compile)
        try:
            if options.resume:
                _resume(run, options.resume)
            if options.video:
                results.check_video(lambda: run.evaluation_env(1, render=True))
            if options.logger:
                run.curve.logger = results.open_logger(options.logger, folder)
            results.save_json(folder / "config.json", asdict(config))
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


def _file_name(task: str) -> str:
    return task.replace("/", "-").replace(":", "-")


def _reason(error: Exception) -> str:
    return first_line(error) if isinstance(error, EnvFailure) else str(error)


def _resume(run: Run, path: Path) -> None:
    """Goes on from a checkpoint; one of other networks or envs is a ``ValueError``."""
    state = results.load_checkpoint(path)
    why_not = f"{path}: {state.get('not_whole')}"
    expect("not_whole" not in state, "resume", "a checkpoint of simulators, too", why_not)
    try:
        run.load_state_dict(state)
        if not run.is_finite:
            raise ValueError("its weights are not finite")
    except (RuntimeError, ValueError, KeyError) as error:
        raise ValueError(f"--resume: expected settings that {path} can go on with: {error}") from error


def load_policy(folder: str | Path, num_envs: int = 1, *, render: bool = False) -> tuple[Policy, EnvBase]:
    """See :func:`torchrl_pool.examples.load_policy`."""
    path = Path(folder)
    state = results.load_checkpoint(path / CHECKPOINT if path.is_dir() else path)
    if "program" not in state:
        raise ValueError(f"expected a checkpoint that names its program, got {path}, of an earlier release")
    program = importlib.import_module(f"torchrl_pool.examples.{state['program']}").PROGRAM
    program.prepare()
    if "members" in state:  # a population's best
        state = max(state["members"], key=lambda one: fmean(one["curve"]["returns"] or [-math.inf]))
    alone = {"num_envs": num_envs, "architecture": "synchronous", "actors": 1, "population": 1}
    known = marks_of(program.config)
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
