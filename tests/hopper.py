"""A MuJoCo model with rewards and terminations in torch."""

from torchrl_pool import MujocoPool


def speed(state, action, new):
    return (new["qpos"] - state["qpos"])[:, 0] - 0.1 * action.square().sum(1)


def low(state, new):
    return new["qpos"][:, 1] < 1.15


def hopper(num_envs=4, **options):
    settings = {
        "frame_skip": 4,
        "reward": speed,
        "terminated": low,
        "randomize": ["qpos += uniform(-0.05, 0.05)", "qvel += normal(0, 0.05)"],
        "max_episode_steps": 30,
    }
    return MujocoPool("hopper.xml", num_envs, **{**settings, **options})
