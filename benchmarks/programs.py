"""Programs of other libraries, as they are published and with the lines of the env changed.

Each is run in turn, cut to a few updates, from the same seed: as published, with a pool in place of its envs,
and with more than that (more envs, PoolCollector). Pool and published program must end with the same weights,
bit for bit. Where the published one has no batch of envs, or several processes that collect in any order, a
batch of the program's own library is compared as well, which must end so. Seconds count from the first update
to the end. The programs are read from clones of their repositories, in one folder, and from the packages that
are installed:

    mkdir clones
    git clone https://github.com/pytorch/rl clones/rl
    git clone https://github.com/vwxyzjn/cleanrl clones/cleanrl
    git clone https://github.com/Toni-SM/skrl clones/skrl
    pip install skrl==2.1.1 rl_zoo3==2.9.2 tensorboard matplotlib torchvision
    python benchmarks/programs.py clones --json benchmarks/results/programs.json
    python benchmarks/programs.py clones --show --only sac  # the lines that are changed
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from throughput import save

Replacement = tuple[str, str]  # a regular expression, and what stands there instead
Changes = dict[str, list[Replacement]]  # by the file's name

COMMITS = {
    "rl": "ae9719f17b1517af5c2523a36c4616f003ee55cf",  # of 2026-08-22, between 0.13.3 and 0.14.1
    "cleanrl": "fe8d8a03c41a7ef5b523e2e354bd01c363e786bb",
    "skrl": "c29ced630e83ab32304dc8a3de241a70d3bc5746",  # 2.0.0
}
FORMS = PUBLISHED, BATCH, POOL, MORE = ["published", "batch", "pool", "more"]

# Is imported by Python itself, and writes down what the program's optimizers have made of their parameters,
# and the seconds that all of its processes took from the first update on.
SITECUSTOMIZE = """
import atexit, hashlib, json, os, time
from pathlib import Path
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

torch.manual_seed(0)
optimizers, begin = {}, []

def processor_seconds():
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[3]) == os.getsid(0):
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")

def note(optimizer, *arguments):
    if not begin:
        begin.extend([time.perf_counter(), processor_seconds()])
    optimizers[optimizer] = optimizers.get(optimizer, 0) + 1

register_optimizer_step_pre_hook(note)

@atexit.register
def write():
    if not begin:
        return
    digest, total = hashlib.sha256(), 0.0
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                values = parameter.detach().cpu()
                digest.update(values.numpy().tobytes())
                total += values.double().abs().sum().item()
    with open(os.environ["RESULT_FILE"], "w") as file:
        json.dump({
            "weights": digest.hexdigest()[:16],
            "sum": total,
            "updates": sum(optimizers.values()),
            "seconds": time.perf_counter() - begin[0],
            "processor seconds": processor_seconds() - begin[1],
        }, file)
"""


@dataclass(frozen=True)
class Program:
    """A program, its arguments, which cut it short, and what is changed.

    Args:
        source: a clone, or an installed package.
        path: what is copied from there, a folder or a file.
        script: that is run.
        arguments: of the script.
        mended: what all forms have changed, the published one too, to run at all, from a seed, for seconds.
        pool: what a pool needs.
        more: what is changed besides.
        batch: what gives the published program a batch that a pool can be compared with.
        differs: why the weights cannot be the same.
    """

    source: str
    path: str
    script: str
    arguments: str
    mended: Changes
    pool: Changes
    more: Changes = field(default_factory=dict)
    batch: Changes = field(default_factory=dict)
    differs: str = ""

    def changes(self) -> dict[str, list[Changes]]:
        """Of each form."""
        forms = {PUBLISHED: [], BATCH: [self.batch], POOL: [self.pool], MORE: [self.pool, self.more]}
        return {form: [self.mended, *changes] for form, changes in forms.items() if all(changes)}

    def write(self, clones: Path, form: str, to: Path) -> Path:
        """Writes the files of a form. Raises ValueError: one does not have the lines that are replaced."""
        if self.source in COMMITS:
            command = ["git", "-C", str(clones / self.source), "archive", COMMITS[self.source], self.path]
            subprocess.run(["tar", "-x", "-C", str(to)], input=subprocess.check_output(command), check=True)
            root = to / self.path
            root = root if root.is_dir() else root.parent
        else:
            spec = find_spec(self.source)
            if spec is None or spec.origin is None:
                raise RuntimeError(f"{self.source} is not installed")
            shutil.copy(Path(spec.origin).parent / self.path, to)
            root = to
        for changes in self.changes()[form]:
            for name, replacements in changes.items():
                (file,) = root.rglob(name)
                text = file.read_text()
                for pattern, instead in replacements:
                    text, count = re.subn(pattern, instead, text)
                    if not count:
                        raise ValueError(f"{file}: expected {pattern!r}")
                file.write_text(text)
        return root


# ---- CleanRL, skrl and Stable-Baselines3's Zoo

CLEANRL_ENVS = r"envs = gym.vector.SyncVectorEnv\((?:.|\n)*?\n    \)\n"
CLEANRL_POOL = (
    'envs = gym.make_vec(f"torchrl_pool.gymnasium:torchrl_pool/{args.env_id}", args.num_envs)\n'
    "    envs = gym.wrappers.vector.RecordEpisodeStatistics(envs)\n"
)
CLEANRL_SYNC = (
    "envs = gym.vector.SyncVectorEnv([lambda: gym.make(args.env_id)] * args.num_envs)\n"
    "    envs = gym.wrappers.vector.RecordEpisodeStatistics(envs)\n"
)
CLEANRL_WRAPPERS = (
    "    envs = gym.wrappers.vector.ClipAction(envs)\n"
    "    envs = gym.wrappers.vector.NormalizeObservation(envs)\n"
    "    envs = gym.wrappers.vector.TransformObservation(envs, lambda obs: np.clip(obs, -10, 10))\n"
    "    envs = gym.wrappers.vector.NormalizeReward(envs, gamma=args.gamma)\n"
    "    envs = gym.wrappers.vector.TransformReward(envs, lambda reward: np.clip(reward, -10, 10))\n"
)

OTHERS = {
    "cleanrl ppo": Program(
        "cleanrl",
        "cleanrl/ppo.py",
        "ppo.py",
        "--total-timesteps 16384",
        {},
        {"ppo.py": [(CLEANRL_ENVS, CLEANRL_POOL)]},
        {
            "ppo.py": [
                ("num_envs: int = 4", "num_envs: int = 16"),
                ("num_steps: int = 128", "num_steps: int = 32"),
            ]
        },
    ),
    "cleanrl ppo_continuous_action": Program(
        "cleanrl",
        "cleanrl/ppo_continuous_action.py",
        "ppo_continuous_action.py",
        "--total-timesteps 4096",
        {"ppo_continuous_action.py": [(r"(np.clip\(obs, -10, 10\))\)", r"\1, env.observation_space)")]},
        {"ppo_continuous_action.py": [(CLEANRL_ENVS, CLEANRL_POOL + CLEANRL_WRAPPERS)]},
        {
            "ppo_continuous_action.py": [
                ("num_envs: int = 1", "num_envs: int = 8"),
                ("num_steps: int = 2048", "num_steps: int = 256"),
            ]
        },
        # Gymnasium's wrappers of one env count and round otherwise than those of vector envs.
        {"ppo_continuous_action.py": [(CLEANRL_ENVS, CLEANRL_SYNC + CLEANRL_WRAPPERS)]},
    ),
    "skrl torch_gymnasium_pendulum_ppo": Program(
        "skrl",
        "examples/gymnasium/torch_gymnasium_pendulum_ppo.py",
        "torch_gymnasium_pendulum_ppo.py",
        "--num_envs 4 --headless --seed 42",
        {"torch_gymnasium_pendulum_ppo.py": [('"timesteps": 100000', '"timesteps": 2048')]},
        {
            "torch_gymnasium_pendulum_ppo.py": [
                (
                    r'gym.make_vec\(env_id, .*, vectorization_mode="sync"\)',
                    'gym.make_vec(f"torchrl_pool.gymnasium:torchrl_pool/{env_id}", num_envs=args.num_envs)',
                )
            ]
        },
    ),
    "rl_zoo3 ppo": Program(
        "rl_zoo3",
        "train.py",
        "train.py",
        "--algo ppo --env LunarLander-v3 --seed 0 --n-timesteps 32768 --eval-freq -1 --device cpu",
        {},
        {
            "train.py": [
                (
                    r"from rl_zoo3.exp_manager import ExperimentManager\n",
                    r"\g<0>from stable_baselines3.common.vec_env import VecMonitor\n"
                    "from torchrl_pool.stable_baselines3 import PoolVecEnv\n",
                ),
                (
                    r"    exp_manager = ExperimentManager\(\n",
                    "    ExperimentManager.default_vec_env_cls = staticmethod(\n"
                    "        lambda envs: VecMonitor(PoolVecEnv(env_id, len(envs)))\n"
                    r"    )\n\g<0>",
                ),
            ]
        },
    ),
}


# ---- TorchRL's tutorials

TUTORIALS = "tutorials/sphinx-tutorials/"
IMPORT_POOL = (r"(?m)^import torch$", r"\g<0>\nfrom torchrl_pool import PoolCollector, PoolEnv")
IMPORT_SERIAL = (r"(?m)^import torch$", r"\g<0>\nfrom torchrl.envs import SerialEnv")
CALL_COLLECTOR = (r"= Collector\(", "= PoolCollector(")
PPO_ENV = r'GymEnv\("InvertedDoublePendulum-v4", device=device\)'
PPO_BATCH = (r"reduce_dim=0, cat_dim=0", "reduce_dim=(0, 1), cat_dim=1")
RNN_ENV = r'GymEnv\("CartPole-v1", from_pixels=True, device=device\)'
RNN_BATCH = [
    (r"reduce_dim=\[0, 1, 2\], cat_dim=0", "reduce_dim=[0, 1, 2, 3], cat_dim=1"),
    (r"=env.action_spec\b", "=env.action_spec_unbatched"),
    (r"LazyMemmapStorage\(1_000_000, ", r"\g<0>ndim=2, "),
]
MADDPG_ENV = r"base_env = PettingZooEnv\(\n(?:.|\n)*?\n    \)\n"
MADDPG_OPTIONS = (
    "continuous_actions=True, num_good=n_evaders, num_adversaries=n_chasers, num_obstacles=n_obstacles, "
    "max_cycles=max_steps"
)
MADDPG_ONE = f"PettingZooWrapper(simple_tag_v3.parallel_env({MADDPG_OPTIONS}))"


def tutorial(
    script: str,
    mended: list[Replacement],
    batch: list[Replacement],
    pool: list[Replacement],
    more: list[Replacement],
) -> Program:
    changes = [{script: mended}, {script: [IMPORT_POOL, *pool]}, {script: more}]
    of_batch = {script: [IMPORT_SERIAL, *batch]} if batch else {}
    return Program("rl", TUTORIALS + script, script, "", *changes, of_batch)


TUTORIAL_PROGRAMS = {
    "coding_ppo": tutorial(
        "coding_ppo.py",
        [
            (r"total_frames = 10_000", "total_frames = 3_000"),
            (r"num_epochs = 10", "num_epochs = 2"),
            (r"env = TransformedEnv\(\n", r"base_env.set_seed(0)\n\g<0>"),
        ],
        [],  # set_seed does not seed torch: with manual_seed, too, a pool of one gives the published weights
        [(PPO_ENV, 'PoolEnv("InvertedDoublePendulum-v4", 1)'), PPO_BATCH],
        [
            CALL_COLLECTOR,
            (r'(PoolEnv\("InvertedDoublePendulum-v4"), 1\)', r"\1, 8)"),
            (r"num_iter=1000", "num_iter=125"),
        ],
    ),
    "dqn_with_rnn": tutorial(
        "dqn_with_rnn.py",
        [
            (r"init_stats\(1000,", "init_stats(40,"),
            (r"env.transform\[-1\].init_stats", r"env.set_seed(0)\n\g<0>"),
            (r"    prefetch=10,\n", ""),  # threads that draw in any order
            (r"total_frames=200,", "total_frames=300,"),
            (r"len\(rb\) < 1000", "len(rb) < 150"),
            (r"utd = 16", "utd = 2"),
            (r"env.rollout\(10000,", "env.rollout(5,"),
        ],
        [(RNN_ENV, 'SerialEnv(5, lambda: GymEnv("CartPole-v1", from_pixels=True))'), *RNN_BATCH],
        [(RNN_ENV, 'PoolEnv("CartPole-v1", 5, from_pixels=True)'), *RNN_BATCH],
        [CALL_COLLECTOR],
    ),
    "multiagent_competitive_ddpg": tutorial(
        "multiagent_competitive_ddpg.py",
        [
            (r"frames_per_batch = 1_000", "frames_per_batch = 300"),
            (r"n_iters = 10", "n_iters = 3"),
            (r"n_optimiser_steps = 100", "n_optimiser_steps = 10"),
            (r"use_vmas = True", "use_vmas = False"),
            (r"    PettingZooEnv,\n", "    PettingZooWrapper,\n"),  # PettingZoo's MPE has moved to mpe2
            (r"(?m)^import torch$", r"\g<0>\nfrom mpe2 import simple_tag_v3"),
            (MADDPG_ENV, f"base_env = {MADDPG_ONE}\n    base_env.set_seed(seed)\n"),
        ],
        [],
        [(re.escape(MADDPG_ONE), f'PoolEnv("mpe2/simple_tag_v3", 1, {MADDPG_OPTIONS})')],
        [CALL_COLLECTOR, (r'(PoolEnv\("mpe2/simple_tag_v3"), 1,', r"\1, 10,")],
    ),
}


# ---- TorchRL's sota-implementations

IMPORT = (r"from __future__ import annotations\n", r"\g<0>from torchrl_pool import PoolEnv, fuse\n")
IMPORT_COLLECTOR = (
    r"( *)(from torchrl.collectors import .*Collector)\n",
    r"\g<0>\1from torchrl_pool import PoolCollector\n",
)
CSV = "logger.backend=csv"


def one_env(folder: str, utils: str, script: str, settings: str) -> Program:
    """A program that makes one ``GymEnv``, without a seed."""
    made = r"env = GymEnv\([^()]*\)"
    # QValueActor expects the spec of one env.
    spec = (
        r'action_spec = env_specs\["input_spec", "full_action_spec", "action"\]',
        'action_spec = proof_environment.full_action_spec_unbatched["action"]',
    )
    return Program(
        "rl",
        f"sota-implementations/{folder}",
        script,
        settings,
        {utils: [(f"( *)({made})", r"\1\2\n\1env.set_seed(0)")]},
        {utils: [IMPORT, (made, "env = PoolEnv(env_name, 1)"), *([spec] if folder == "dqn" else [])]},
        {
            utils: [(r"PoolEnv\(env_name, 1\)", "PoolEnv(env_name, 8)")],
            script: [IMPORT_COLLECTOR, CALL_COLLECTOR],
        },
    )


PARALLEL = r"ParallelEnv\(\s*([\w.]+),\s*EnvCreator\(\w+\),\s*serial_for_single=True,\s*\)"
ATARI_ENV = (
    r"env = ParallelEnv\((?:.|\n)*?\n    \)\n    env = TransformedEnv\(env\)\n",
    "env = TransformedEnv(\n"
    '        PoolEnv(env_name, num_envs, obs_type="rgb", info_keys=["lives"], '
    "categorical_action_encoding=True)\n"
    "    )\n"
    "    env.append_transform(EndOfLifeTransform())\n"
    '    env.append_transform(RenameTransform(["observation"], ["pixels"]))\n',
)
ATARI_FUSE = (r'(VecNorm\(in_keys=\["pixels"\]\)\)\n    return )env\n', r"\1fuse(env)\n")
ATARI_PIXELS = [
    (r'obs_type="rgb"', "scale_obs=True"),
    (r"    env.append_transform\((?:ToTensorImage|GrayScale|Resize|CatFrames)\(.*\n", ""),
    (r"    env.append_transform\(RenameTransform.*pixels_int.*\n", ""),
]
SOTA = {
    "ppo_mujoco": one_env(
        "ppo", "utils_mujoco.py", "ppo_mujoco.py", f"collector.total_frames=4096 loss.ppo_epochs=2 {CSV}"
    ),
    "dqn_cartpole": one_env(
        "dqn",
        "utils_cartpole.py",
        "dqn_cartpole.py",
        "collector.init_random_frames=1000 collector.total_frames=4000 logger.backend=null",
    ),
    "sac": Program(
        "rl",
        "sota-implementations/sac",
        "sac.py",
        f"collector.frames_per_batch=200 collector.init_random_frames=200 collector.total_frames=600 {CSV}",
        {"utils.py": [(r"prefetch=3", "prefetch=0")]},  # threads that draw in any order
        {"utils.py": [IMPORT, (PARALLEL, r"PoolEnv(cfg.env.name, \1)")]},
        {"utils.py": [IMPORT_COLLECTOR, CALL_COLLECTOR]},
    ),
    "ppo_atari": Program(
        "rl",
        "sota-implementations/ppo",
        "ppo_atari.py",
        "collector.frames_per_batch=256 collector.total_frames=1024 logger.num_test_episodes=1 "
        f"loss.mini_batch_size=128 {CSV}",
        {"utils_atari.py": [(r"max_steps=10_000_000", "max_steps=20")]},
        {"utils_atari.py": [IMPORT, ATARI_ENV, ATARI_FUSE]},
        {"utils_atari.py": ATARI_PIXELS, "ppo_atari.py": [IMPORT_COLLECTOR, CALL_COLLECTOR]},
        differs="no-op resets draw from other streams",
    ),
}


# ---- TorchRL's trainers, which hydra makes


def trainer(name: str, settings: str, mended: list[Replacement]) -> Program:
    pool = [
        (
            r"( *- )env@training_env: batched_env\n(?:.*training_env\.create_env_fn.*\n)+",
            r"\1env@training_env: transformed_env\n\1env@training_env.base_env: pool\n"
            r"\1transform@training_env.transform: compose\n",
        ),
        (
            r"  num_workers: (\d+)\n  create_env_fn:\n    base_env:\n      env_name: (\S+)\n    transform:\n"
            r"      transforms:\n((?:        - .*\n)+)    _partial_: true\n",
            r"  base_env:\n    task: \2\n    num_envs: \1\n  transform:\n    transforms:\n\3",
        ),
        (r"hydra:\n", "hydra:\n  searchpath: [pkg://torchrl_pool.configs]\n"),
    ]
    more = [
        (r"\ncollector:\n", r"\g<0>  _target_: torchrl_pool.PoolCollector\n"),
        (r"num_envs: \d", "num_envs: 8"),
    ]
    # The trainer seeds the envs after the collector has reset them.
    seeded = (r"    trainer.train\(\)", r"    trainer.collector.reset()\n\g<0>")
    file = "config.yaml"
    return Program(
        "rl",
        f"sota-implementations/{name}_trainer",
        "train.py",
        settings,
        {"train.py": [seeded], file: mended},
        {file: pool},
        {file: more},
    )


OFF_POLICY = "collector.init_random_frames=1000 collector.total_frames=3000"
TRAINERS = {
    "ppo_trainer": trainer(
        "ppo",
        "collector.total_frames=5120 trainer.total_frames=5120",
        [
            (r"  offline: \w+\n  project: \S+\n", ""),  # settings of a logger that it does not have
            (r" +- \$\{transform0\}\n", ""),  # no-op resets, of one env only, draw in its process
            (r"collector: multi_async", "collector: sync"),  # processes that collect in any order
            (r"(  frames_per_batch: \d+\n)  num_workers: \d+\n", r"\1"),
        ],
    ),
    "dqn_trainer": trainer("dqn", OFF_POLICY, []),
    "ddpg_trainer": trainer("ddpg", OFF_POLICY, []),
}

PROGRAMS = {**OTHERS, **TUTORIAL_PROGRAMS, **SOTA, **TRAINERS}


# ---- runs


def run(program: Program, form: str, clones: Path, timeout: float) -> dict[str, Any]:
    """What the program has come to. Raises RuntimeError: it has failed, and what it said last."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = program.write(clones, form, Path(scratch))
        (Path(scratch) / "sitecustomize.py").write_text(SITECUSTOMIZE)
        result = Path(scratch, "result.json")
        environment = {
            **os.environ,
            "PYTHONPATH": scratch,
            "RESULT_FILE": str(result),
            "OMP_NUM_THREADS": "1",
            "MPLBACKEND": "Agg",
            "SDL_VIDEODRIVER": "dummy",
            "TQDM_MININTERVAL": "0",  # programs log its rate, which is None before it has been printed
        }
        log = Path(scratch, "log.txt")
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, program.script, *program.arguments.split()],
                cwd=folder,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # whose processes' seconds are counted
            )
            try:
                status = process.wait(timeout)
            finally:
                with suppress(ProcessLookupError):  # none is left
                    os.killpg(process.pid, signal.SIGKILL)
        if status or not result.exists():
            raise RuntimeError(f"exit status {status}: {log.read_text()[-2000:]}")
        return json.loads(result.read_text())


def show(program: Program, clones: Path) -> None:
    """Prints what each form changes of the published one, and the last one of that with a pool."""

    def texts(form: str) -> dict[str, list[str]]:
        with tempfile.TemporaryDirectory() as scratch:
            folder = program.write(clones, form, Path(scratch))
            names = {*program.batch, *program.pool, *program.more}
            return {n: p.read_text().splitlines() for n in sorted(names) for p in folder.rglob(n)}

    for form in list(program.changes())[1:]:
        before = POOL if form == MORE else PUBLISHED
        old, new = texts(before), texts(form)
        for name in old:
            lines = difflib.unified_diff(old[name], new[name], before, form, n=0)
            print(*[line.rstrip() for line in lines], sep="\n")


def equal(runs: dict[str, list[dict[str, Any]]]) -> bool:
    """Whether the pool ended as what it is compared with did, in each run."""
    reference = runs.get(BATCH) or runs[PUBLISHED]
    return len({result["weights"] for result in reference + runs[POOL]}) == 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", type=Path, help="the folder that they are in")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--show", action="store_true", help="print the changes, run nothing")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each form, in turn")
    parser.add_argument(
        "--json", type=Path, metavar="FILE.json", help="runs replace those of a program there"
    )
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds of a run")
    options = parser.parse_args()
    results = (
        json.loads(options.json.read_text())["results"] if options.json and options.json.exists() else {}
    )
    wrong = []
    for name in options.only:
        program = PROGRAMS[name]
        if options.show:
            show(program, options.clones)
            continue
        runs: dict[str, list[dict[str, Any]]] = {}
        for form in list(program.changes()) * options.rounds:
            try:
                result = run(program, form, options.clones, options.timeout)
            except (RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
                print(f"{name}, {form}: {error}", flush=True)
                wrong.append(name)
                break
            print(f"{name:40}{form:12}", *result.values(), flush=True)
            runs.setdefault(form, []).append(result)
        else:
            seconds = {form: median(r["processor seconds"] for r in of) for form, of in runs.items()}
            print(
                f"{name:40}{'equal' if equal(runs) else 'DIFFERS'}, processor seconds: {seconds}", flush=True
            )
            wrong += [] if equal(runs) else [name]
            results[name] = runs
            save(options.json, results)
    print("wrong:", *wrong or ["nothing"])
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
