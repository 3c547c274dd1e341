"""Frames per second of TorchRL's own training programs, with nothing changed but the lines of the env.

The programs lie in ``sota-implementations`` of a checkout of TorchRL's repository, of the release that is
installed. Each runs as published, with a PoolEnv in place of its envs, with its transforms fused, and with
PoolCollector in place of Collector, in turn and with the same settings. Those of Atari need torchvision:

    git clone --branch v0.14.0 https://github.com/pytorch/rl
    python benchmarks/torchrl_programs.py rl --json benchmarks/results/torchrl_programs.json
    python benchmarks/torchrl_programs.py rl --show --only sac  # the lines that are changed

Frames and seconds are those between the first update after the warm-up and the end of the program's progress
bar: its start, and what compiles or fills a buffer before, do not count.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from throughput import save

Replacement = tuple[str, str]  # a regular expression, and what stands there instead

FORMS = ["published", "PoolEnv", "fused", "PoolCollector", "8 envs", "the pool's pixels"]
PUBLISHED, POOL, FUSED, COLLECTOR, MORE, PIXELS = FORMS

# Is imported by Python itself, and writes down when the program has made how many frames.
SITECUSTOMIZE = """
import atexit, json, os, time
import tqdm
noted, update = [], tqdm.tqdm.update
def update_and_note(self, n=1):
    noted.append((time.perf_counter(), n))
    return update(self, n)
tqdm.tqdm.update = update_and_note
@atexit.register
def write():
    if len(noted) > 1:
        with open(os.environ["FRAMES_FILE"], "w") as file:
            json.dump(noted, file)
"""


class Program(NamedTuple):
    """A program and its settings.

    Args:
        folder: in ``sota-implementations``.
        script: that is run.
        settings: hydra's, which cut it short.
        warm_up: frames that do not count.
        changes: of each form, by the file that they are in; a form has those before it, too.
        mended: what all forms have changed, the published one too, to run here.
    """

    folder: str
    script: str
    settings: str
    warm_up: int
    changes: dict[str, dict[str, list[Replacement]]]
    mended: tuple[Replacement, ...] = ()

    def forms(self) -> list[str]:
        return [PUBLISHED, *self.changes]

    def text_of(self, form: str, file: Path) -> str:
        """A file as it is in a form. Raises ValueError: it does not have the lines that are replaced."""
        text, forms = file.read_text(), self.forms()
        for pattern, instead in self.mended:
            text = re.sub(pattern, instead, text)
        for earlier in forms[1 : forms.index(form) + 1]:
            for pattern, instead in self.changes[earlier].get(file.name, []):
                text, count = re.subn(pattern, instead, text)
                if not count:
                    raise ValueError(
                        f"{file}: expected {pattern!r}, as in the release that these changes are for"
                    )
        return text


# ---- what is changed

IMPORT = (r"from __future__ import annotations\n", r"\g<0>from torchrl_pool import PoolEnv, fuse\n")
IMPORT_COLLECTOR = (
    r"( *)(from torchrl.collectors import .*Collector)\n",
    r"\g<0>\1from torchrl_pool import PoolCollector\n",
)
CALL_COLLECTOR = (r"= Collector\(", "= PoolCollector(")


def one_env(name: str, utils: str, script: str, settings: str, warm_up: int) -> Program:
    """A program that makes one ``GymEnv``."""
    make = (r"env = GymEnv\([^()]*\)\n    (?=env = T|return)", "env = PoolEnv(env_name, 1)\n    ")
    fuse = (r"\n    return env\n", "\n    return fuse(env)\n")
    if name == "ppo":  # a function adds them
        make = (r"env = GymEnv\([^()]*\)", "env = PoolEnv(env_name, 1)")
    changes = [IMPORT, make]
    if name == "dqn":  # expects the spec of one env: any batch of TorchRL's needs this line
        spec = r'action_spec = env_specs\["input_spec", "full_action_spec", "action"\]'
        changes.append((spec, 'action_spec = proof_environment.full_action_spec_unbatched["action"]'))
    return Program(
        name,
        script,
        settings,
        warm_up,
        {
            POOL: {utils: changes},
            FUSED: {utils: [fuse]},
            COLLECTOR: {script: [IMPORT_COLLECTOR, CALL_COLLECTOR]},
            MORE: {utils: [(r"PoolEnv\(env_name, 1\)", "PoolEnv(env_name, 8)")]},
        },
    )


def batch(
    name: str, script: str, settings: str, warm_up: int, mended: tuple[Replacement, ...] = ()
) -> Program:
    """A program that makes a ``ParallelEnv`` of ``GymEnv``."""
    make = (
        r"ParallelEnv\(\s*([\w.]+),\s*EnvCreator\(\w+\),\s*serial_for_single=True,\s*(?:device=device,\s*)?\)",
        r"PoolEnv(cfg.env.name, \1)",
    )
    return Program(
        name,
        script,
        settings,
        warm_up,
        {
            POOL: {"utils.py": [IMPORT, make]},
            FUSED: {"utils.py": [(r"return transformed_env\n", "return fuse(transformed_env)\n")]},
            COLLECTOR: {"utils.py": [IMPORT_COLLECTOR, CALL_COLLECTOR]},
        },
        mended,
    )


def atari(name: str, script: str, settings: str, warm_up: int) -> Program:
    """A program of Atari games; FUSED is no form of its own, as EndOfLifeTransform has to be native."""
    utils, num_envs, options = "utils_atari.py", "num_envs", 'info_keys=["lives"]'
    made = r"env = ParallelEnv\((?:.|\n)*?\n    \)\n    env = TransformedEnv\(env\)\n"
    lives = "    env.append_transform(EndOfLifeTransform())\n"
    collector = [IMPORT_COLLECTOR, CALL_COLLECTOR]
    if name == "ppo":
        options += ", categorical_action_encoding=True"
    if name == "a2c":
        lives = f"    if not is_test:\n    {lives}"
    if name == "impala":
        utils, num_envs, lives = "utils.py", "1", ""  # it adds the transform itself
        made = (
            r"with set_gym_backend\(gym_backend\):\n        env = GymEnv\((?:.|\n)*?\n        \)\n"
            r"    env = TransformedEnv\(env\)\n.*NoopResetEnv.*\n"
        )
        below = (r'( *)backend="process",\n', r"\g<0>\1collector_class=PoolCollector,\n")
        collector = [IMPORT_COLLECTOR, below]
    make = (
        made,
        f'env = TransformedEnv(PoolEnv(env_name, {num_envs}, obs_type="rgb", {options}))\n{lives}'
        '    env.append_transform(RenameTransform(["observation"], ["pixels"]))\n',
    )
    import_rename = (r"from torchrl.envs import \(\n", r"\g<0>    RenameTransform,\n")
    fuse = (r'(VecNorm\(in_keys=\["pixels"\]\)\)\n    return )env\n', r"\1fuse(env)\n")
    changes = [IMPORT, make, fuse, *([] if name == "ppo" else [import_rename])]
    resizing = [(r"    env.append_transform\((?:ToTensorImage|GrayScale|Resize|CatFrames)\(.*\n", "")]
    if name == "ppo":  # which keeps the pictures for videos
        resizing.append((r"    env.append_transform\(RenameTransform.*pixels_int.*\n", ""))
    return Program(
        name,
        script,
        settings,
        warm_up,
        {
            POOL: {utils: changes},
            COLLECTOR: {script: collector},
            PIXELS: {utils: [(r'obs_type="rgb"', "scale_obs=True"), *resizing]},
        },
        mended=((r"max_steps=10_000_000", "max_steps=100"),),  # the evaluation after the first batch
    )


def trainer(name: str, settings: str, warm_up: int) -> Program:
    """A trainer that hydra makes; PoolCollector fuses its transforms."""
    defaults = (
        r"( *- )env@training_env: batched_env\n(?:.*training_env\.create_env_fn.*\n)+",
        r"\1env@training_env: transformed_env\n\1env@training_env.base_env: pool\n"
        r"\1transform@training_env.transform: compose\n",
    )
    env = (
        r"  num_workers: (\d+)\n  create_env_fn:\n    base_env:\n      env_name: (\S+)\n    transform:\n"
        r"      transforms:\n((?:        - .*\n)+)    _partial_: true\n",
        r"  base_env:\n    task: \2\n    num_envs: \1\n  transform:\n    transforms:\n\3",
    )
    if name == "td3":
        defaults = (r"base_env: batched_env\n.*base_env\.create_env_fn: gym\n", "base_env: pool\n")
        env = (
            r"    create_env_fn:\n      env_name: (\S+)\n    num_workers: (\d+)\n",
            r"    task: \1\n    num_envs: \2\n",
        )
    changes = [defaults, env, (r"hydra:\n", "hydra:\n  searchpath: [pkg://torchrl_pool.configs]\n")]
    if name in ("ppo", "a2c", "reinforce", "sac"):  # several processes, each with envs of its own
        changes.append((r"collector: multi_async", "collector: sync"))
        changes.append((r"(  frames_per_batch: \d+\n)  num_workers: \d+\n", r"\1"))
    return Program(
        f"{name}_trainer",
        "train.py",
        settings,
        warm_up,
        {
            POOL: {"config.yaml": changes},
            COLLECTOR: {
                "config.yaml": [(r"\ncollector:\n", r"\g<0>  _target_: torchrl_pool.PoolCollector\n")]
            },
            **({} if name == "td3" else {MORE: {"config.yaml": [(r"num_envs: \d", "num_envs: 8")]}}),
        },
        # CSV in place of W&B, which wants an account, and without its settings; no Apple GPU.
        mended=(
            (r"@logger: wandb", "@logger: csv"),
            (r"  offline: \w+\n  project: \S+\n", ""),
            (r"device: mps", "device: cpu"),
        ),
    )


CSV = "logger.backend=csv"
OFF_POLICY = (
    f"collector.frames_per_batch=400 collector.init_random_frames=400 collector.total_frames=800 {CSV}"
)
# Frames of the game, four of which are one step.
SHORT_ATARI = f"collector.frames_per_batch=256 collector.total_frames=1536 logger.num_test_episodes=1 {CSV}"
PROGRAMS = {
    "ppo_mujoco": one_env(
        "ppo", "utils_mujoco.py", "ppo_mujoco.py", f"collector.total_frames=4096 {CSV}", 2048
    ),
    "a2c_mujoco": one_env(
        "a2c", "utils_mujoco.py", "a2c_mujoco.py", f"collector.total_frames=1920 {CSV}", 640
    ),
    "dqn_cartpole": one_env(
        "dqn",
        "utils_cartpole.py",
        "dqn_cartpole.py",
        "collector.init_random_frames=2000 collector.total_frames=7000 logger.backend=null",
        3000,
    ),
    "sac": batch("sac", "sac.py", OFF_POLICY, 400),
    "discrete_sac": batch("discrete_sac", "discrete_sac.py", f"env.library=gymnasium {OFF_POLICY}", 400),
    "td3": batch("td3", "td3.py", OFF_POLICY, 400),
    "ddpg": batch("ddpg", "ddpg.py", OFF_POLICY, 400),
    "cql_online": batch(
        "cql", "cql_online.py", f"collector.init_random_frames=1000 collector.total_frames=2000 {CSV}", 1000
    ),
    "discrete_cql_online": batch(
        "cql",
        "discrete_cql_online.py",
        f"collector.init_random_frames=1000 collector.total_frames=2000 {CSV}",
        1000,
        # The agent takes the spec of the batch for that of one env, and fails in its first step.
        mended=(
            (r"action_spec = train_env\.action_spec\n", "action_spec = train_env.action_spec_unbatched\n"),
        ),
    ),
    "ppo_atari": atari("ppo", "ppo_atari.py", f"{SHORT_ATARI} loss.mini_batch_size=128", 128),
    "a2c_atari": atari("a2c", "a2c_atari.py", f"{SHORT_ATARI} env.num_envs=8", 128),
    "impala": atari(
        "impala",
        "impala_single_node.py",
        f"collector.num_workers=2 collector.total_frames=1600 loss.batch_size=4 {CSV}",
        100,
    ),
    "ppo_trainer": trainer("ppo", "collector.total_frames=5120 trainer.total_frames=5120", 1024),
    "a2c_trainer": trainer("a2c", "collector.total_frames=5120 trainer.total_frames=5120", 2048),
    "reinforce_trainer": trainer("reinforce", "collector.total_frames=5120 trainer.total_frames=5120", 2048),
    "dqn_trainer": trainer("dqn", "collector.init_random_frames=1000 collector.total_frames=3000", 2000),
    "ddpg_trainer": trainer("ddpg", "collector.init_random_frames=1000 collector.total_frames=3000", 2000),
    "td3_trainer": trainer("td3", "collector.total_frames=4096 trainer.total_frames=3072", 1024),
    "sac_trainer": trainer("sac", "collector.init_random_frames=1000 collector.total_frames=3000", 2000),
    "cql_trainer": trainer("cql", "collector.init_random_frames=1000 collector.total_frames=3000", 2000),
}


# ---- runs


def changed(program: Program, form: str, sources: Path) -> dict[str, str]:
    """The files of a program that a form changes, by their paths in its folder."""
    names = {name for files in program.changes.values() for name in files}
    found = {}
    for file in sorted((sources / program.folder).rglob("*")):
        if file.name in names:
            found[str(file.relative_to(sources / program.folder))] = program.text_of(form, file)
    return found


def run(program: Program, form: str, sources: Path, timeout: float) -> float:
    """Frames per second. Raises RuntimeError: it has failed, and what it said last."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, program.folder)
        shutil.copytree(sources / program.folder, folder)
        for name, text in changed(program, form, sources).items():
            (folder / name).write_text(text)
        (Path(scratch) / "sitecustomize.py").write_text(SITECUSTOMIZE)
        frames = Path(scratch, "frames.json")
        environment = {
            **os.environ,
            "PYTHONPATH": scratch,
            "FRAMES_FILE": str(frames),
            "OMP_NUM_THREADS": "1",
            "TQDM_MININTERVAL": "0",  # programs log its rate, which is None before it has been printed
        }
        done = subprocess.run(
            [sys.executable, program.script, *program.settings.split(), f"hydra.run.dir={scratch}/run"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if done.returncode or not frames.exists():
            raise RuntimeError(done.stderr[-1500:])
        noted = json.loads(frames.read_text())
    return rate_of(noted, program.warm_up)


def rate_of(noted: Sequence[tuple[float, int]], warm_up: int) -> float:
    """Frames per second from the first update after the warm-up to the last one."""
    total, begin = 0, None
    for moment, frames in noted:
        total += frames
        if begin is None and total >= warm_up:
            begin = moment, total
    assert begin is not None
    return (total - begin[1]) / (noted[-1][0] - begin[0])


def show(program: Program, sources: Path) -> None:
    """Prints what each form changes of the one before."""
    for before, form in pairwise(program.forms()):
        old, new = changed(program, before, sources), changed(program, form, sources)
        for name in old:
            lines = difflib.unified_diff(old[name].splitlines(), new[name].splitlines(), before, form, n=0)
            print(*[line.rstrip() for line in lines], sep="\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="of TorchRL's repository")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS)
    parser.add_argument("--show", action="store_true", help="print the changes, run nothing")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each form, in turn")
    parser.add_argument("--json", type=Path, metavar="FILE.json", help="runs are added to those there")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds of a run")
    options = parser.parse_args()
    sources = options.checkout / "sota-implementations"
    results = (
        json.loads(options.json.read_text())["results"] if options.json and options.json.exists() else {}
    )
    failed = False
    for name in options.only:
        program = PROGRAMS[name]
        if options.show:
            show(program, sources)
            continue
        rates = results.setdefault(name, {})
        for form in [form for form in program.forms() if form in options.forms] * options.rounds:
            try:
                rate = run(program, form, sources, options.timeout)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{name:22}{form:20}failed: {error}", flush=True)
                failed = True
                continue
            print(f"{name:22}{form:20}{rate:10.0f} frames/s", flush=True)
            rates.setdefault(form, []).append(rate)
            if options.json:
                save(options.json, results)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
