"""MujocoPool: the physics of any MuJoCo model in the executor, a task's functions over the whole batch."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from numpy.typing import DTypeLike
from tensordict import TensorDict, TensorDictBase
from torchrl.data import Composite, Unbounded

from torchrl_pool._env.arguments import (
    check_float_dtype,
    check_int,
    check_mask,
    check_names,
    entropy_per_env,
    generator_seed,
)
from torchrl_pool._env.errors import EnvFailure, joined
from torchrl_pool._env.executor_env import not_traced
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._env.step_mdp import NextRoot
from torchrl_pool._env.tensors import unsafe_tensordict
from torchrl_pool._mujoco.control import control_lines, split_gains
from torchrl_pool._mujoco.functions import (
    FLAGS,
    RESERVED,
    Functions,
    Observe,
    Reset,
    Reward,
    Terminated,
    check_free,
    flag_column,
    initial_values,
    observed,
    reward_and_terms,
)
from torchrl_pool._mujoco.hooks import TaskHooks
from torchrl_pool._mujoco.model_source import models_per_env, python_model, with_models
from torchrl_pool._mujoco.open_loop import OpenLoopRollouts
from torchrl_pool._mujoco.reset_options import PHYSICS, in_own_words, reset_options
from torchrl_pool._mujoco.single_simulations import action_of, write_rows


class MujocoPool(TaskHooks, OpenLoopRollouts):
    """Vectorized simulations of a MuJoCo model, with a task that is written in torch.

    The physics of all envs runs in the threads of one C++ executor; then the task's functions run once for
    the whole batch of N = ``num_envs``::

        reward(state, action, next_state)  ->  [N] or [N, 1], floating-point; or {"reward": …, "a term": …}
        terminated(state, next_state)      ->  [N] or [N, 1], bool
        reset(rows, rng)                   ->  {"qpos": [k, nq], "qvel": [k, nv], …} for the envs `rows` ([k])
        observe(state)                     ->  [N, …], the entry "observation", or several by their names

    ``state`` and ``next_state`` are tensordicts ``[N]`` with the arrays of ``mjData`` that ``observation``
    and ``fields`` name, before and after the step, in MuJoCo's own dtypes; and ``"step_count"``. An array is
    named as it is in ``mjData`` (``"qpos"``, ``"sensordata"``, ``"xpos"``), also for some bodies, joints or
    sensors alone (``"xpos:torso"``, ``"qpos:hip,knee"``, ``"sensordata:gyro"``). Arrays of each env's
    ``mjModel`` are named likewise: ``"body_mass"`` tells what ``randomize`` has drawn.

    The entries, of batch size ``[N]``: ``"qpos"``, ``"qvel"`` or what ``observation`` names (``[N, …]``, of
    ``dtype``); terms in ``info_keys`` (``[N]``, of ``dtype``); ``"reward"`` (``[N, 1]``, of ``dtype``); the
    flags ``"done"``, ``"terminated"`` and ``"truncated"`` (bool ``[N, 1]``). Actions are float32 ``[N, nu]``.

    Args:
        xml: the path of a model, its XML text, or the name of one of Gymnasium's models (``"ant.xml"``); or
            ``num_envs`` of them, a model for each env, which may differ in all but the shapes of what is
            observed and of actions.
        num_envs: number of simulations; the batch size is ``[num_envs]``.

    Keyword Args:
        frame_skip: simulation steps per step.
        observation: the arrays that are entries of the observation, or an ``observe`` function.
        fields: further arrays, for the functions alone.
        info_keys: the terms of the reward that are entries, ``[num_envs]``; zeros where an episode begins.
        reward: see above. Default: none (0).
        terminated: see above. Default: only ``max_episode_steps`` ends an episode.
        reset: see above. Default: episodes begin at ``keyframe``.
        task: an object with methods ``reward``, ``terminated``, ``reset`` and ``observe``, for those
            functions that are not given.
        keyframe: where episodes begin, by number or name. Default: the model's initial state.
        randomize: domain randomization, drawn at each reset, in this order, from each env's random stream:
            ``"qpos += uniform(-0.1, 0.1)"``, ``"body_mass:torso *= normal(1, 0.1)"``,
            ``"geom_friction = log_uniform(0.5, 2)"``. A line that names an array of ``mjModel`` gives each
            env a model of its own, and starts from the compiled model's numbers each time.
        model_fields: arrays of ``mjModel`` by name with each env's values ``[N, …]``; or the names alone, for
            a ``reset`` that returns them.
        control: the controls in each simulation step, as an expression for all actuators
            (``"kp * (target - position) - kd * velocity"``), or one for each by its name. Default: the
            action.
        gains: numbers by name for these expressions: a float; a list, one for each actuator; or each env's
            own, a tensor ``[N]`` or ``[N, actuators]``. Of the model they are ``"numeric_data:NAME"``, which
            ``randomize`` and ``model_fields`` may name.
        dtype: of rewards and of floating-point observations, ``torch.float32`` or ``torch.float64``, or the
            name of one.
        max_episode_steps: steps after which an episode is truncated, by default 1000; ``None``: never.
        assets: files that the XML text names: their contents, by name (with the model's ``meshdir``).
        seed: as ``set_seed(seed)`` right after construction.
        device: where outputs go, and where the functions find their inputs.
        from_pixels: as in :class:`~torchrl_pool.PoolEnv`.
        pixels_only: as in :class:`~torchrl_pool.PoolEnv`.
        **options: those of ``MJCF-v0`` (``python -m torchrl_pool info MJCF-v0``): ``kp``, ``kd``,
            ``target_scale``, ``unlimited_range``, ``action_delay``, ``push_body``, ``push_force``,
            ``push_every``, ``push_steps``, ``fresh``, ``camera_name``, …, and the arguments of
            :class:`~torchrl_pool.PoolEnv`: ``num_threads``, ``step_timeout``, ``env_options``,
            ``refuse_nan``, ``check_actions``, ``thread_affinity``.

    Raises:
        FileNotFoundError: there is no such model.
        TypeError: an argument of another type, or one of :class:`~torchrl_pool.PoolEnv` that has no meaning
            here.
        ValueError: the model does not compile, or has no array, body, joint, … of a name; the message
            suggests the nearest ones.
        EnvFailure: by a call: a simulation diverged, which leaves it in its state before the step; or its
            reward is not finite. The others have stepped.

    Examples:
        >>> from torchrl_pool import MujocoPool
        >>> env = MujocoPool("ant.xml", 4, frame_skip=5, reward=lambda state, action, new: new["qvel"][:, 0])
        >>> env.rollout(3)["next", "qpos"].shape
        torch.Size([4, 3, 15])
    """

    _supports_set_state = True
    _has_frame_skip = True  # or TorchRL would add a transform for it

    def __init__(
        self,
        xml: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        num_envs: int,
        *,
        frame_skip: int = 1,
        observation: Sequence[str] | Observe = ("qpos", "qvel"),
        fields: Sequence[str] = (),
        info_keys: Sequence[str] = (),
        reward: Reward | None = None,
        terminated: Terminated | None = None,
        reset: Reset | None = None,
        task: Any = None,
        keyframe: int | str | None = None,
        randomize: Sequence[str] = (),
        model_fields: Mapping[str, torch.Tensor] | Sequence[str] = (),
        control: str | Mapping[str, str] | Sequence[str] = (),
        gains: Mapping[str, float | Sequence[float] | torch.Tensor] | None = None,
        dtype: torch.dtype | DTypeLike = torch.float32,
        max_episode_steps: int | None = 1000,
        assets: Mapping[str, bytes] | None = None,
        seed: int | None = None,
        device: torch.device | str | int | None = None,
        from_pixels: bool = False,
        pixels_only: bool = True,
        **options: Any,
    ) -> None:
        own_dtype = check_float_dtype("dtype", dtype) or torch.float32
        if refused := [name for name in ("obs_dtype", "xml_file") if name in options]:
            raise TypeError(
                f"{', '.join(refused)}: not an argument of {type(self).__name__}; use dtype and xml"
            )
        observe = observation if callable(observation) else None
        functions = Functions.of(task, reward=reward, terminated=terminated, reset=reset, observe=observe)
        self._check_hooks(functions)
        entries = () if callable(observation) else check_names("observation", observation)
        wanted = list(dict.fromkeys([*entries, *check_names("fields", fields)]))
        terms = check_names("info_keys", info_keys)
        check_free(terms, [*wanted, "step_count", *RESERVED])
        if pixels_only and from_pixels:
            entries = ()
        fixed, own = split_gains(gains or {}, num_envs)
        given = model_fields if isinstance(model_fields, Mapping) else {}
        model_values = initial_values({**given, **own}, num_envs, "model_fields")
        models = models_per_env(xml, assets, num_envs)
        if len(set(models)) > 1:
            options["env_options"] = with_models(models, options.get("env_options"))
        physics = PoolEnv(
            PHYSICS,
            num_envs,
            xml_file=models[0],
            frame_skip=frame_skip,
            observation=wanted or ["qpos", "qvel"],
            info_keys=["step_count"],
            keyframe=keyframe,
            randomize=check_names("randomize", randomize),
            model_fields=[*check_names("model_fields", [*given] or model_fields or []), *own],
            control=control_lines(control),
            gains=fixed,
            max_episode_steps=max_episode_steps,
            device=device,
            from_pixels=from_pixels,
            pixels_only=False,
            **options,
        )
        super().__init__(device=device, batch_size=[num_envs])
        self.num_envs = num_envs
        self.frame_skip = frame_skip
        self.dtype = own_dtype
        self.rng = torch.Generator()
        self._physics = physics
        self._functions = functions
        self._model_values = {name: value.detach().cpu().clone() for name, value in model_values.items()}
        if model_values:
            every = range(num_envs)
            with in_own_words():
                physics._source.reset_arguments(None, reset_options(model_values, {}, every, num_envs), None)
            self._check_shapes(model_values)
        self._state: TensorDict | None = None
        self._entries, self._terms = tuple(entries), tuple(terms)
        self._pixels = from_pixels
        observes = functions.observe is not None or type(self)._make_obs is not TaskHooks._make_obs
        self._observes = observes and not (from_pixels and pixels_only)
        self._make_specs()
        self.rng.seed()
        self._seeded = self.rng, self.rng.get_state()
        if seed is not None:
            self.set_seed(seed)

    def _check_shapes(self, model_values: Mapping[str, torch.Tensor]) -> None:
        """Where a value is more than a row of numbers, it is no other array of as many numbers."""
        for name, value in model_values.items():
            field = getattr(self.mj_model, name, None) if value.ndim > 2 else None
            if field is not None and value.shape[1:] != field.shape:
                raise ValueError(
                    f"model_fields: {name!r}: expected shape {[self.num_envs, *field.shape]}, "
                    f"got {list(value.shape)}"
                )

    # ---- specs

    def _make_specs(self) -> None:
        self.action_spec = self._physics.full_action_spec.clone()
        shape = (self.num_envs, 1)
        self.reward_spec = Unbounded(shape=shape, dtype=self.dtype, device=self.device)
        self.full_done_spec = self._physics.full_done_spec.clone()
        self.observation_spec = observation = self._observation_spec()
        in_root = [*observation.keys(True, True), *FLAGS]
        self._next_root = NextRoot(["reward", *in_root], in_root, ["action"], self.done_keys, {})
        self._nested = any(isinstance(key, tuple) for key in in_root)

    def _observation_spec(self) -> Composite:
        observation = Composite(shape=(self.num_envs,), device=self.device)
        state = self._blank_state()
        for key, value in self._observation(state).items():
            observation[key] = Unbounded(shape=value.shape, dtype=value.dtype, device=self.device)
        if self._pixels:
            observation["pixels"] = self._physics.full_observation_spec["pixels"].clone()
        return observation

    # ---- steps

    @not_traced
    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """As :meth:`PoolEnv.step_and_maybe_reset`."""
        if tensordict.device != self.device:
            tensordict = tensordict.to(self.device)
        entries = getattr(tensordict, "_tensordict", None)
        if (
            type(tensordict) is not TensorDict
            or entries is None
            or self._nested
            or "_step" in entries
            or tensordict.is_locked
            or tensordict.batch_size != self.batch_size
            or tensordict._td_dim_names is not None
            or self._run_type_checks
            or self._post_step_mdp_hooks is not None
        ):
            both: tuple[TensorDictBase, TensorDictBase] = super().step_and_maybe_reset(tensordict)
            return both
        following = self._step(tensordict)
        values = dict(following.items())
        preset = entries.get("next")
        if preset is not None:
            following.update(preset.exclude(*values))
        tensordict._set_str("next", following, validated=True, inplace=False, non_blocking=False)
        root = self._next_root.following(entries, values)
        done = values["done"]
        if done.any():
            begun = self._reset(self._tensordict({**root, "_reset": done}))
            root = self._next_root.following(entries, dict(begun.items()), None if done.all() else done)
        return tensordict, self._tensordict(root)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        state = self._running()
        action = action_of(tensordict)
        mask = tensordict.get("_step", None)
        given = {"action": self._prepare_ctrl(action)}
        if mask is not None:
            given.update(state.items(), _step=mask)
        failure = None
        try:
            next_state = self._physics._step(self._tensordict(given))
        except EnvFailure as error:
            if error.tensordict is None:
                raise
            failure, next_state = error, error.tensordict
            rows = torch.tensor([env for env in error.env_index if env not in error.hung], dtype=torch.long)
            write_rows(next_state, rows, state[rows])  # a simulation that diverges stays where it was
        stepped = None if mask is None else mask.reshape(-1)
        self.__dict__["_state"] = next_state  # past what modules do at each assignment
        try:
            result = self._results(state, action, next_state, stepped=stepped, failure=failure)
        except EnvFailure as error:
            if stepped is not None and error.tensordict is not None:
                error.tensordict = self._kept(error.tensordict, tensordict, stepped)
            raise
        return result if stepped is None else self._kept(result, tensordict, stepped)

    def _results(
        self,
        state: TensorDictBase,
        action: torch.Tensor,
        next_state: TensorDictBase,
        *,
        rows: torch.Tensor | None = None,
        stepped: torch.Tensor | None = None,
        failure: EnvFailure | None = None,
    ) -> TensorDict:
        """What follows from a step, and terms of the reward in ``next_state``.

        Args:
            state: before it.
            action: what was done.
            next_state: after it.
            rows: which envs these are; None: all.
            stepped: those that have moved; None: all.
            failure: what the physics says of some of them, whose rows hold zeros.

        Raises:
            EnvFailure: that, or a reward is not finite. Its ``tensordict`` has what the others' step gave.
        """
        count = action.shape[0]
        try:
            reward, terms = reward_and_terms(
                self._compute_reward(state, action.clone(), next_state), count, self._terms
            )  # which may write into its action: the caller's stays as it is
            terminated = self._own(flag_column(self._compute_done(state, next_state), count))
            for key in self._terms:
                term = self._own(terms[key], self.dtype)
                next_state.set(key, term if stepped is None else torch.where(stepped, term, state.get(key)))
            values = self._observation(next_state)
        except Exception as error:
            if failure is None:
                raise
            failure.tensordict = None
            raise failure from error
        reward = self._own(reward, self.dtype)
        truncated = self._own(next_state.get("truncated"))
        values.update(reward=reward, done=terminated | truncated, terminated=terminated, truncated=truncated)
        result = self._tensordict(values, count)
        if failure is None and math.isfinite(reward.sum().item()):
            return result
        unfit = ~reward.reshape(-1).isfinite()
        if stepped is not None:
            unfit &= stepped
        envs = torch.arange(count) if rows is None else rows
        failures = [] if failure is None else [failure]
        for row in unfit.cpu().nonzero().flatten().tolist():
            env = int(envs[row])
            if failure is None or env not in failure.env_index:
                message = f"the reward is {reward[row].item()}"
                step = int(next_state.get("step_count")[row])
                failures.append(EnvFailure(f"env {env} failed: {message}", [env], [message], [step]))
        if not failures:
            return result  # great ones, whose sum is not finite
        failed = joined(failures)
        for row, env in enumerate(envs.tolist()):
            if env in failed.env_index:
                result[row].zero_()
        failed.tensordict = result
        raise failed from None

    def _own(self, value: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A copy, which belongs to the caller: the state stays ours."""
        return value.to(device=self.device, dtype=dtype, copy=True)

    def _tensordict(self, values: Mapping[Any, Any], num_rows: int | None = None) -> TensorDict:
        batch_size = self.batch_size if num_rows is None else torch.Size([num_rows])
        return unsafe_tensordict(dict(values), batch_size, self.device, nested=self._nested)

    def _observation(self, state: TensorDictBase) -> dict[str, torch.Tensor]:
        """By name, to give away."""
        entries = {name: state.get(name) for name in self._entries}
        if self._observes:
            entries.update(observed(self._observed(state), state.batch_size[0]))
            check_free(self._terms, entries)
        if self._pixels and "pixels" in state:
            entries["pixels"] = state.get("pixels")
        entries.update((name, state.get(name)) for name in self._terms)
        return {
            name: self._own(value.detach(), self.dtype if value.is_floating_point() else None)
            for name, value in entries.items()
        }

    def _kept(self, result: TensorDict, root: TensorDictBase, stepped: torch.Tensor) -> TensorDict:
        """Rows that did not step show what their root shows, and earn nothing."""
        for key, value in result.items():
            old = torch.zeros_like(value) if key == "reward" else root.get(key, value)
            result.set(key, torch.where(stepped.reshape(-1, *[1] * (value.ndim - 1)), value, old))
        return result

    # ---- resets

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        given = {} if self._state is None else dict(self._state.items())
        if mask is not None:
            given["_reset"] = mask = check_mask("_reset", mask, self.num_envs)
        seed = kwargs.get("seed")
        if seed is not None:
            entropy_per_env(seed, self.num_envs)  # refuses what is none
            self.rng.manual_seed(generator_seed(seed[0] if isinstance(seed, Sequence) else seed))
        restored = tensordict if kwargs.pop("set_state", False) else None
        rows = torch.arange(self.num_envs) if mask is None else mask.cpu().reshape(-1).nonzero().flatten()
        if len(rows) and (restored is not None or self._model_values or self._gives_initial_states()):
            values = self._initial_values(rows, restored)
            if self._model_values or values:
                if kwargs.get("options") is not None:
                    raise TypeError(
                        "options: expected none, because reset or model_fields give this env's resets values"
                    )
                start = {name: value[rows] for name, value in self._model_values.items()}
                kwargs["options"] = reset_options(start, values, rows.tolist(), self.num_envs)
        try:
            with in_own_words():
                state = self._physics._reset(self._tensordict(given), **kwargs)
        except EnvFailure as failure:
            if failure.tensordict is not None:
                self._begin(failure.tensordict, rows)
                failure.tensordict = self._root(failure.tensordict)
            raise
        self._begin(state, rows)
        return self._root(state)

    def _begin(self, state: TensorDict, rows: torch.Tensor) -> None:
        """Takes over the state of all envs, of which these begin an episode."""
        latest = self._blank_state() if self._state is None else self._state
        for key in self._terms:
            term = latest.get(key)
            state.set(key, term.index_fill(0, rows.to(term.device), 0))
        self._state = state
        self._begun(rows)

    def _initial_values(self, rows: torch.Tensor, restored: TensorDictBase | None) -> dict[str, torch.Tensor]:
        """What these envs begin with, or go on from, after what ``randomize`` has drawn."""
        if restored is not None:
            inputs = ("qpos", "qvel", "act", "mocap_pos", "mocap_quat")
            return {name: restored[name].cpu()[rows] for name in inputs if name in restored}
        if not self._gives_initial_states():
            return {}
        return initial_values(self._initial_state(rows.clone()), len(rows))

    def _root(self, state: TensorDictBase) -> TensorDict:
        values = self._observation(state)
        for flag in FLAGS:
            values[flag] = self._own(state.get(flag))
        return self._tensordict(values, state.batch_size[0])

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seeds every env as :meth:`PoolEnv.set_seed`, and the generator that ``reset`` is given."""
        if seed is not None:
            self.rng.manual_seed(generator_seed(check_int("seed", seed, minimum=0)))
            self._seeded = self.rng, self.rng.get_state()
        return self._physics.set_seed(seed, static_seed=static_seed)

    def _set_seed(self, seed: int | None) -> None:
        self.set_seed(seed)

    # ---- life

    def to(self, device: torch.device | str | int) -> MujocoPool:
        """Moves outputs and the functions' inputs: as :meth:`torchrl.envs.EnvBase.to`."""
        self._physics.to(device)
        if self._state is not None:
            self._state = self._state.to(device)
        env: MujocoPool = super().to(device)
        return env

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self, *, raise_if_closed: bool = False) -> None:
        """As :meth:`PoolEnv.close`. A later reset starts new simulations, seeded as first."""
        self._physics.close(raise_if_closed=raise_if_closed)
        rng, first = self._seeded
        if rng is self.rng:
            rng.set_state(first)
        self._state = None
        self.is_closed = True

    @property
    def mj_model(self) -> Any:
        """The model as Python's ``mujoco`` has it, a copy; that of env 0 where they differ."""
        model = self.__dict__.get("_mj_model")
        if model is None:
            model = self.__dict__["_mj_model"] = python_model(self._physics._arguments["xml_file"])
        return model

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_envs={self.num_envs}, device={self.device})"
