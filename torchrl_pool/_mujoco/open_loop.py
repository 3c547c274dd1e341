"""Open-loop rollouts: simulations follow sequences of actions that are known beforehand."""

from __future__ import annotations

import torch
from tensordict import TensorDict

from torchrl_pool import _core
from torchrl_pool._env.errors import EnvFailure, env_failure
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._env.specs import Key
from torchrl_pool._env.tensors import unsafe_tensordict
from torchrl_pool._mujoco.single_simulations import SingleSimulations, write_rows


class OpenLoopRollouts(SingleSimulations):
    """The method of :class:`~torchrl_pool.MujocoPool` that makes many steps in one call."""

    def open_loop_rollout(self, actions: torch.Tensor) -> TensorDict:
        """Steps by sequences of actions: T steps of each env in one call, with a record of what follows.

        The physics alone: the task's functions are not called and no episode is reset, so that no env waits
        for another between its steps. Functions that work on ``[N, T, …]`` may be called with the record. The
        next step, or the next call, continues from the last of these steps. ``step_timeout`` is a limit for
        all steps of an env together.

        Args:
            actions: float32 ``[N, T, nu]``.

        Returns:
            ``[N, T]``: after each step the arrays of ``observation`` and ``fields``, in MuJoCo's dtypes;
            ``"step_count"``; the flags, of which only ``max_episode_steps`` sets any.

        Raises:
            RuntimeError: before the first reset.
            TypeError, ValueError: actions that are not as above.
            EnvFailure: simulations diverged, and are as before their failing steps. Its ``tensordict`` is the
                record, with zeros from those on.

        Examples:
            >>> import torch
            >>> from torchrl_pool import MujocoPool
            >>> env = MujocoPool("ant.xml", 4, frame_skip=5)
            >>> _ = env.reset()
            >>> env.open_loop_rollout(torch.zeros(4, 10, 8))["qpos"].shape
            torch.Size([4, 10, 15])
        """
        before = self._running()
        if actions.ndim != 3 or len(actions) != self.num_envs or actions.shape[1] == 0:
            shape = [self.num_envs, "T", *self.action_spec.shape[1:]]
            raise ValueError(f"actions: expected shape {shape}, got {list(actions.shape)}")
        controls = torch.stack([self._prepare_ctrl(action) for action in actions.unbind(1)], 1)
        record, failure = _steps(self._physics, controls)
        last: TensorDict = record[:, -1].clone()
        self._state = last.update({key: torch.zeros_like(before.get(key)) for key in self._terms})
        if failure is None:
            return record
        for env, step in zip(failure.env_index, failure.steps, strict=True):
            made = step - 1 - int(before["step_count"][env])
            stays = record[env : env + 1, made - 1] if made > 0 else before[env : env + 1]
            if env not in failure.hung:
                write_rows(last, torch.tensor([env]), stays)
        raise failure


def _steps(physics: PoolEnv, actions: torch.Tensor) -> tuple[TensorDict, EnvFailure | None]:
    """The entries of a reset after each step ``[N, T]``, and what of them failed."""
    pool = physics._running()
    batch_size = actions.shape[:2]
    rows = TensorDict({"action": actions.flatten(0, 1)}, [batch_size.numel()])
    inputs = physics._check_actions(rows, len(rows))
    tensors: dict[Key, torch.Tensor] = {}
    outputs = []  # rewards are not wanted
    for key, one in physics._stepper.step_prototypes.items():
        if key not in physics._stepper.reward_keys:
            tensors[key] = torch.empty((*batch_size, *one.shape[1:]), dtype=one.dtype, device="cpu")
        outputs.append(tensors[key].data_ptr() if key in tensors else 0)
    physics._stepper.latest = {}
    failed = None
    try:
        calls, out = physics._stepper.calls, (tensors, outputs)
        calls.run(pool, _core.Op.steps, inputs, out, num_steps=batch_size[1])
    except _core.EnvFailure as error:
        failed = error
    record = unsafe_tensordict(physics._on_device(tensors), batch_size, physics.device, nested=False)
    return record, None if failed is None else env_failure(failed, record)
