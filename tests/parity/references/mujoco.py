"""Gymnasium's MuJoCo tasks."""

from typing import ClassVar

import gymnasium

from references.reference import Reference, gymnasium_tasks

# Options that many tasks have, in the combinations in which they have them.
_NOISE = {"reset_noise_scale": 0.03, "exclude_current_positions_from_observation": False}
_RUNNER = {**_NOISE, "forward_reward_weight": 0.7, "ctrl_cost_weight": 0.3}
_HEALTHY = {"healthy_reward": 0.6, "terminate_when_unhealthy": False}
_WALKER = {**_RUNNER, **_HEALTHY, "healthy_z_range": (0.9, 1.4), "healthy_angle_range": (-0.1, 0.15)}
_HUMANOID = {**_RUNNER, **_HEALTHY, "healthy_z_range": (1.1, 1.5)}
_ANT = {
    **_NOISE,
    **_HEALTHY,
    "ctrl_cost_weight": 0.25,
    "contact_cost_weight": 0.1,
    "healthy_z_range": (0.4, 0.8),
    "contact_force_range": (-0.5, 3.0),
}


class MuJoCo(Reference):
    family = "mujoco"
    entry_point = "gymnasium.envs.mujoco."
    default: ClassVar = ["Hopper-v4", "InvertedPendulum-v5", "Reacher-v5", "Walker2d-v5"]
    default_options: ClassVar = [
        ("Ant-v5", {**_ANT, "forward_reward_weight": 1.3, "main_body": "aux_1", "frame_skip": 3}),
        ("Ant-v5", {"include_cfrc_ext_in_observation": False, "main_body": 3, "healthy_z_range": (0.5, 0.9)}),
        ("Ant-v4", {**_ANT, "use_contact_forces": True}),
        ("Ant-v4", {"healthy_z_range": (0.5, 0.9), "ctrl_cost_weight": 0.1}),
        ("HalfCheetah-v5", {**_RUNNER, "frame_skip": 2}),
        ("HalfCheetah-v4", _RUNNER),
        ("Hopper-v5", {**_WALKER, "healthy_state_range": (-2.0, 2.0), "frame_skip": 5}),
        ("Hopper-v5", {"healthy_state_range": (-1.5, 1.5)}),
        ("Hopper-v4", {**_WALKER, "healthy_state_range": (-2.0, 2.0)}),
        ("Walker2d-v5", {**_WALKER, "xml_file": "walker2d.xml"}),
        ("Walker2d-v4", _WALKER),
        (
            "Humanoid-v5",
            {**_HUMANOID, "contact_cost_weight": 1e-4, "contact_cost_range": (0.1, 2.0), "frame_skip": 3},
        ),
        ("Humanoid-v5", {"include_cinert_in_observation": False, "include_cfrc_ext_in_observation": False}),
        (
            "Humanoid-v5",
            {"include_cvel_in_observation": False, "include_qfrc_actuator_in_observation": False},
        ),
        ("Humanoid-v5", {"xml_file": "humanoidstandup.xml"}),
        ("Humanoid-v4", _HUMANOID),
        (
            "HumanoidStandup-v5",
            {
                **_NOISE,
                "uph_cost_weight": 2.0,
                "ctrl_cost_weight": 0.3,
                "impact_cost_weight": 1e-4,
                "impact_cost_range": (0.05, 3.0),
                "include_cinert_in_observation": False,
            },
        ),
        (
            "HumanoidStandup-v5",
            {
                "include_cvel_in_observation": False,
                "include_qfrc_actuator_in_observation": False,
                "include_cfrc_ext_in_observation": False,
            },
        ),
        ("InvertedDoublePendulum-v5", {"healthy_reward": 3.0, "reset_noise_scale": 0.02, "frame_skip": 3}),
        ("InvertedPendulum-v5", {"reset_noise_scale": 0.1, "frame_skip": 1}),
        (
            "Pusher-v5",
            {
                "reward_near_weight": 0.3,
                "reward_dist_weight": 2,
                "reward_control_weight": 0.7,
                "frame_skip": 2,
            },
        ),
        ("Reacher-v5", {"reward_dist_weight": 0.5, "reward_control_weight": 0.3, "frame_skip": 4}),
        ("Swimmer-v5", {**_RUNNER, "frame_skip": 2}),
        ("Swimmer-v4", _RUNNER),
    ]

    def steps(self, task):
        return 250

    def ends(self, task):
        return any(word in task for word in ("Hopper", "Pendulum", "Reacher", "Walker"))

    @property
    def tasks(self):
        return gymnasium_tasks("mujoco")  # MJCF-v0 is our own

    def ids(self):
        """Every id that Gymnasium registers and that runs there on this version of MuJoCo."""
        runs = set()
        for id in super().ids():
            try:
                gymnasium.make(id, disable_env_checker=True).close()
            except ImportError as error:
                assert "only supported on `mujoco<3`" in str(error)  # noqa: PT017
            else:
                runs.add(id)
        return runs
