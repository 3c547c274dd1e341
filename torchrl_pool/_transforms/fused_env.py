"""FusedEnv: a TransformedEnv whose transforms run where the envs run, as far as they can."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.envs import Compose, EnvBase, Transform, TransformedEnv

from torchrl_pool import _core
from torchrl_pool._env.arguments import check_mask
from torchrl_pool._env.errors import env_failure
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._env.specs import Key
from torchrl_pool._env.step_mdp import NextRoot
from torchrl_pool._env.tensors import unsafe_tensordict
from torchrl_pool._env.traced import TracedResets, no_part_of_a_graph
from torchrl_pool._mujoco import MujocoPool
from torchrl_pool._transforms import torchrl_side
from torchrl_pool._transforms.chain import ChainAllocator, Inputs
from torchrl_pool._transforms.fusion import Fusion, fuse_chain, is_fusible, transforms_of
from torchrl_pool._transforms.step_into import StepIntoBatch
from torchrl_pool._transforms.traced_part import Traced, TracedPart, traced_part


class NativePart:
    """The pool and the native part of its transforms, as one thing that steps."""

    def __init__(self, env: PoolEnv, fusion: Fusion, action_keys: list[Key], done_keys: list[Key]) -> None:
        self.env, self.chain = env, (chain := fusion.chain)
        self.transforms, self.rest = fusion.native, fusion.rest
        self.allocator = ChainAllocator(chain, env.num_envs, env._pin_memory, not env._on_cpu)
        self.inputs = Inputs(chain)
        self.next_root = NextRoot(chain.keys, chain.root_keys, action_keys, done_keys, env._groups)
        self.nested = env._nested or any(isinstance(key, tuple) for key in chain.keys)
        # Nobody knows any more what values that only the executor has were for rows that a reset leaves out.
        self.is_stale = False
        self._pools_latest = env._allocator.latest  # as long as nobody has used the pool by itself
        self.into: StepIntoBatch | None = None  # where the next step writes to, too
        env._holders.add(self)

    def let_go(self) -> None:
        """Forgets what calls have left here: the pool is closed."""
        self.allocator.let_go()
        self._pools_latest = {}

    def tensordict(self, tensors: dict[Key, torch.Tensor]) -> TensorDict:
        env = self.env
        return self.unsafe(env._on_device(tensors))

    def unsafe(
        self, values: dict[Key, Any], names: list[str] | None = None, num_rows: int | None = None
    ) -> TensorDict:
        """As :meth:`PoolEnv._unsafe`."""
        env = self.env
        batch_size = env._batch_size if num_rows is None else torch.Size([num_rows])
        return unsafe_tensordict(
            values, batch_size, env._device, names, nested=self.nested, groups=env._groups
        )

    # ---- what the transforms behind it find

    def reset(
        self, source: TensorDictBase | None, known: TensorDictBase | None, **kwargs: Any
    ) -> TensorDictBase:
        """The first rows of new episodes in all envs, or in those of a mask; the others' are not for users.

        Args:
            source: what transforms look at, the mask ``"_reset"`` among it.
            known: the root, for envs that go on.
            **kwargs: what the pool's reset takes.
        """
        env = self.env
        self.follow_pool()
        mask = None if source is None else source.get("_reset", None)
        if mask is not None:
            mask = check_mask("_reset", mask, env.num_envs)
            mask = None if mask.all() else mask
        takes = {"seed", "options", "list_of_kwargs"}
        reads = env._states is not None and source is not None and env._states.are_in(source)
        if reads or not takes.issuperset(kwargs) or (mask is not None and not self._goes_on(known, mask)):
            return self._torchrl_reset(source, kwargs)
        given = env._source.reset_arguments(
            kwargs.get("seed"), kwargs.get("options"), kwargs.get("list_of_kwargs")
        )
        if mask is not None and not mask.any():
            if self.chain.has_phases:  # statistics take in the batch once more, as at every reset
                return self._torchrl_reset(source, kwargs)
            assert known is not None
            return self.tensordict({key: known.get(key).clone() for key in self.chain.root_keys})
        return self.tensordict(self._begin(mask, given))

    def _goes_on(self, known: TensorDictBase | None, mask: torch.Tensor) -> bool:
        """Whether the rows that a reset leaves out are known, and nothing else is.

        From the root; or to the transforms behind the native ones, from the last call.
        """
        if known is None or (self.is_stale and self.chain.hides_more):
            return False
        if any(key not in self.allocator.latest for key in self.chain.learned_keys):
            return False
        if self.chain.program.writes and (self.rest or self.chain.has_phases):
            return False  # the latest values are as parameters were
        if self.rest:
            return bool(mask.any()) and self.knows_others()
        for key in self.chain.root_keys:
            value, template = known.get(key, None), self.allocator.step_templates[key]
            if type(value) is not torch.Tensor:
                return False
            if value.shape != template.shape or value.dtype is not template.dtype:
                return False
        return True

    def _torchrl_reset(self, source: TensorDictBase | None, kwargs: Mapping[str, Any]) -> TensorDictBase:
        """The same by TorchRL's code of the native transforms."""
        self.hand_over()
        for transform in reversed(self.transforms):
            source = transform._reset_env_preprocess(source)
        root: TensorDictBase = self.env._reset(source, **kwargs)
        source = root.empty() if source is None else source
        for transform in self.transforms:
            root = transform._reset(source, root)
        self.take_over()
        return self.chain.without_emptied(root)

    def step(self, root: TensorDictBase) -> TensorDict | None:
        """A step of all envs. None: an entry is not as the specs have it, which TorchRL deals with."""
        inputs = self.inputs.check(root)
        return None if inputs is None else self._step(inputs)

    # ---- the three calls of the executor

    def _begin(self, mask: torch.Tensor | None, given: Any) -> dict[Key, torch.Tensor]:
        env, chain = self.env, self.chain
        if mask is None:
            tensors, out = self.allocator.for_root()
            chain.hidden.latest = chain.hidden.out
            chain.hidden.latest_addresses(out)
        else:
            tensors, out = self.allocator.for_reset()
        try:
            env._reset_envs(out, mask, given, (tensors, mask, chain), chain.core)
        except _core.EnvFailure as error:
            raise env_failure(error, None if chain.has_phases else self.tensordict(tensors)) from None
        if mask is None:
            self._note_call()
        self.set_latest(tensors)
        return tensors

    def _step(self, inputs: tuple[list[torch.Tensor], list[int]]) -> TensorDict:
        env, chain = self.env, self.chain
        tensors, out = self.allocator.for_step()
        owner = (inputs[0], tensors, chain)
        into, self.into = self.into, None
        pool = env._running()
        try:
            if into is None:
                pool.step(inputs[1], out, 0, owner, chain.core)
            else:
                into.step_envs(pool, chain, inputs[1], out, owner)
        except _core.EnvFailure as error:
            raise env_failure(error, None if chain.has_phases else self.tensordict(tensors)) from None
        chain.hidden.latest = chain.hidden.out
        self._note_call()
        self.set_latest(tensors)
        values = tensors if env._on_cpu else env._on_device(tensors)
        if into is not None:
            into.given = values
        return self.unsafe(values)

    def step_and_reset(
        self,
        tensordict: TensorDict,
        entries: Mapping[Key, Any],
        inputs: tuple[list[torch.Tensor], list[int]],
    ) -> tuple[TensorDictBase, TensorDictBase]:
        """As :meth:`PoolEnv.step_and_maybe_reset`, whose comments hold here."""
        env, chain, allocator = self.env, self.chain, self.allocator
        pool = env._running()
        tensors, out = allocator.for_step()
        spare = allocator.for_root()
        owner = (inputs[0], tensors, spare, chain)
        names = tensordict._td_dim_names
        ready: list[TensorDict] = []
        meanwhile = partial(self._assemble, ready, entries, tensors, names) if env._overlaps else None
        try:
            resets = pool.step_and_reset(inputs[1], out, spare[1], owner, meanwhile, chain.core)
        except _core.EnvFailure as error:
            raise env_failure(error, None if chain.has_phases else self.tensordict(tensors)) from None

        self._note_call()
        next_values = env._on_device(tensors)
        next_td = ready[0] if ready else self.unsafe(next_values, names)
        if resets:
            chain.hidden.latest = chain.hidden.root
            allocator.latest = spare[0]
            done = next_values["done"] if resets < env.num_envs else None
            next_root = self.unsafe(self.next_root.following(entries, env._on_device(spare[0]), done), names)
        else:
            chain.hidden.latest = chain.hidden.out
            allocator.latest = tensors
            allocator.give_back_root(spare)
            next_root = (
                ready[1] if ready else self.unsafe(self.next_root.following(entries, next_values), names)
            )
        preset = entries.get("next")
        if preset is not None:
            next_td.update(preset.exclude(*next_values))
        tensordict._set_str("next", next_td, validated=True, inplace=False, non_blocking=False)
        return tensordict, next_root

    def _note_call(self) -> None:
        """All envs' values are those of this call."""
        self.is_stale = False
        if writes := self.chain.program.writes:
            writes.clear()

    def _assemble(
        self,
        ready: list[TensorDict],
        entries: Mapping[Key, Any],
        values: dict[Key, torch.Tensor],
        names: list[str] | None,
    ) -> None:
        ready += self.unsafe(values, names), self.unsafe(self.next_root.following(entries, values), names)
        self.allocator.prepare_step()

    # ---- what TorchRL's own code has to find when it goes on from here, and the other way round

    def knows_others(self) -> bool:
        """Whether a reset of some envs can show the others' latest values as TorchRL does.

        Nobody has written to them, and no statistics have changed what they are.
        """
        latest = self.allocator.latest
        return not self.chain.has_phases and all(
            key in latest and not latest[key].is_inference() and latest[key]._version == 0
            for key in self.chain.shown_keys
        )

    def set_latest(self, tensors: dict[Key, torch.Tensor]) -> None:
        self.allocator.latest = tensors

    def hand_over(self) -> None:
        """Tells the pool its latest observations, which a call for some of its envs falls back on."""
        self.follow_pool()
        latest = self.allocator.latest
        shown = {key: latest[own] for key, own in self.chain.as_written.items() if own in latest}
        hidden = {key: value.clone() for key, value in self.chain.hidden.by_key().items()}
        self._pools_latest = self.env._allocator.latest = {**shown, **hidden}

    def follow_pool(self) -> None:
        """Takes over where the pool has been used by itself: by a transform behind, through its parent."""
        if self.env._allocator.latest is not self._pools_latest:
            self.take_over()

    def take_over(self) -> None:
        """Takes over the pool's latest observations."""
        latest = self._pools_latest = self.env._allocator.latest
        self.chain.hidden.take_over(latest)
        as_written = self.chain.as_written.items()
        self.allocator.latest = {own: latest[key] for key, own in as_written if key in latest}
        self.is_stale = True


class FusedEnv(TracedResets, TransformedEnv):
    """A TransformedEnv around a :class:`~torchrl_pool.PoolEnv`, as :func:`fuse` makes it.

    The longest part of its transforms, from the env outwards, that has a native form runs in the executor, on
    the row that a thread has just written; TorchRL runs the others around it. Masks of some envs go TorchRL's
    way where the two could differ.

    Examples:
        >>> from torchrl.envs import RewardSum, TransformedEnv
        >>> from torchrl_pool import FusedEnv, PoolEnv, fuse
        >>> isinstance(fuse(TransformedEnv(PoolEnv("CartPole-v1", 4), RewardSum())), FusedEnv)
        True
    """

    def __init__(self, base_env: PoolEnv, transform: Transform, **kwargs: Any) -> None:
        self.__dict__["_fusion"] = None
        self.__dict__["_part"] = None
        self.__dict__["_reset_root"] = None
        self.__dict__["_traced"] = Traced()
        super().__init__(base_env, transform, auto_unwrap=False, **kwargs)

    # Methods, since nn.Module takes an AttributeError in a property for a property that is not there.
    def fusion(self) -> Fusion:
        """What becomes of the transforms as they now are."""
        fusion: Fusion | None = self.__dict__["_fusion"]
        if fusion is None or not _core.is_unchanged(fusion.watched):
            now = transforms_of(self)
            if fusion is not None and list(map(id, now)) != list(map(id, fusion.native + fusion.rest)):
                super().empty_cache()  # TorchRL does so at append_transform(), but not at pop()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # TorchRL's, of parents that are made for their specs
                fusion = fuse_chain(self)
            old: NativePart | None = self.__dict__["_part"]
            part = NativePart(self.base_env, fusion, self.action_keys, self.done_keys)
            if old is not None:
                old.hand_over()
                part.take_over()
            self.__dict__.update(_fusion=fusion, _part=part)
            self.__dict__["_traced"].update(TracedPart(self, part))
        return fusion

    def native(self) -> NativePart:
        """The pool with the transforms that run natively."""
        fusion = self.__dict__["_fusion"]
        if fusion is None or not _core.is_unchanged(fusion.watched):
            self.fusion()
        part: NativePart = self.__dict__["_part"]
        return part

    def __repr__(self) -> str:
        return str(super().__repr__()).replace("TransformedEnv", type(self).__name__, 1)

    def empty_cache(self) -> None:
        """As :meth:`torchrl.envs.TransformedEnv.empty_cache`."""
        self.__dict__.update(_fusion=None, _traced=Traced())
        super().empty_cache()

    def to(self, *args: Any, **kwargs: Any) -> FusedEnv:
        """As :meth:`torchrl.envs.TransformedEnv.to`."""
        env: FusedEnv = super().to(*args, **kwargs)
        self.__dict__.update(_fusion=None, _traced=Traced())
        return env

    def __reduce__(self) -> Any:
        # Transforms point back at their env: copies of them, with the same tensors, do not.
        return _rebuild, (self.base_env, _apart(self.transform))

    # ---- steps

    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """As :meth:`PoolEnv.step_and_maybe_reset`; one visit of each env where all transforms are native."""
        if torch.compiler.is_compiling():
            return self._step_and_maybe_reset(tensordict)
        native = self.native()
        if native.rest:
            return self._step_then_reset(tensordict)
        base = native.env
        if tensordict.device != base._device:
            tensordict = tensordict.to(base._device)  # none leaves it as it is
        entries = getattr(tensordict, "_tensordict", None)
        if (
            type(tensordict) is not TensorDict
            or entries is None
            or "_step" in entries
            or tensordict._device != base._device
            or base._run_type_checks
            or not native.next_root.can_carry(entries, base._batch_size)
            or base._post_step_mdp_hooks is not None
            or tensordict.is_locked
            or tensordict.batch_size != base._batch_size
            or "_compiled_step_and_maybe_reset" in self.__dict__
        ):
            return self._step_then_reset(tensordict)
        inputs = native.inputs.check(tensordict)
        if inputs is None:
            return self._step_then_reset(tensordict)
        return native.step_and_reset(tensordict, entries, inputs)

    def _step_then_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        stepped: tuple[TensorDictBase, TensorDictBase] = super().step_and_maybe_reset(tensordict)
        return stepped

    def _step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """What :meth:`~torchrl.envs.EnvBase.compile` compiles."""
        if torch.compiler.is_compiling():
            return traced_part(self).step_and_maybe_reset(self, tensordict)
        stepped: tuple[TensorDictBase, TensorDictBase] = super()._step_and_maybe_reset(tensordict)
        return stepped

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        compiling = torch.compiler.is_compiling()
        native = traced_part(self) if compiling else self.native()
        root = torchrl_side.root_of_step(native, tensordict)
        mask = root.get("_step", None)  # the caller's, or one that a transform has written
        if mask is not None and (compiling or not mask.all()):
            return self._torchrl_step(tensordict, root)
        following = torchrl_side.step(native, tensordict, root)
        return self._torchrl_step(tensordict, root) if following is None else following

    @no_part_of_a_graph("a step of some envs is made by TorchRL's code, which looks whether there are any")
    def _torchrl_step(self, tensordict: TensorDictBase, root: TensorDictBase) -> TensorDictBase:
        """What TransformedEnv does from where transforms behind the native ones have made the root."""
        native, env = self.native(), self.base_env
        native.hand_over()
        for transform in reversed(native.transforms):
            root = transform.inv(root)
        mask = root.get("_step", None)
        if mask is not None:
            root = root.exclude("_step")
            if not mask.any():
                skipped: TensorDictBase = self._skip_tensordict(root)
                return skipped
            if not mask.all():
                root.set("_step", mask)
        following = torchrl_side.with_preset(env._step(root), tensordict)
        env._complete_done(env.full_done_spec, following)
        for transform in native.transforms:
            following = transform._step(root, following)
        following = native.chain.without_emptied(following)
        for transform in native.rest:
            following = transform._step(root, following)
        native.take_over()
        return following

    # ---- resets

    def reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        """As :meth:`~torchrl.envs.EnvBase.reset`."""
        if torch.compiler.is_compiling():
            return super().reset(tensordict, **kwargs)
        self.__dict__["_reset_root"] = tensordict
        try:
            root: TensorDictBase = super().reset(tensordict, **kwargs)
        finally:
            self.__dict__["_reset_root"] = None
        return root

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        compiling = torch.compiler.is_compiling()
        if compiling and kwargs:
            return self._reset_with(tensordict, kwargs)
        native = traced_part(self) if compiling else self.native()
        known = tensordict if compiling else self.__dict__["_reset_root"]
        if tensordict is not None:
            # Not state_keys, which TorchRL keeps where transforms are appended.
            state_keys = self.state_spec.keys(True, True)
            tensordict = tensordict.select(*self.reset_keys, *state_keys, strict=False)
        return torchrl_side.reset(native, tensordict, known, **kwargs)


def _apart(transform: Transform) -> Transform:
    """The transform without its env, and with the same tensors, which some kinds' own ``clone`` copies."""
    if type(transform) is Compose:
        return Compose(*map(_apart, transform.transforms))
    return Transform.clone(transform)


def _rebuild(base_env: PoolEnv, transform: Transform) -> FusedEnv:
    return FusedEnv(base_env, transform)


def fuse(env: EnvBase) -> EnvBase:
    """Runs an env's transforms in the C++ executor, where they have a native form.

    Args:
        env: a :class:`~torchrl.envs.TransformedEnv` around a :class:`~torchrl_pool.PoolEnv` or a
            :class:`~torchrl_pool.MujocoPool`; or a pool without transforms.

    Returns:
        A :class:`FusedEnv` that takes its place: with the same transform objects, which stay the owners of
        their parameters and statistics, the same specs and the same results. Transforms without a native
        form, and all that come after the first of them, are run by TorchRL as before:
        :func:`~torchrl_pool.explain` tells which. Around a MujocoPool these are all, and the env stays as
        it is; so does a pool without transforms.

    Raises:
        TypeError: the env is neither a pool nor a TransformedEnv around one.

    Examples:
        >>> from torchrl.envs import Compose, RewardSum, StepCounter, TransformedEnv
        >>> from torchrl_pool import PoolEnv, fuse
        >>> env = TransformedEnv(PoolEnv("CartPole-v1", 4), Compose(RewardSum(), StepCounter(200)))
        >>> fuse(env).rollout(10, break_when_any_done=False)["next", "step_count"].max().item()
        10
    """
    if isinstance(env, (FusedEnv, PoolEnv, MujocoPool)):
        return env
    if isinstance(env, TransformedEnv) and isinstance(env.base_env, MujocoPool):
        return env
    if not is_fusible(env):
        raise TypeError(f"expected a PoolEnv, or a TransformedEnv around one, got {env!r}")
    transform = env.transform
    transform.reset_parent()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of a new container, which the first one has given already
        fused = FusedEnv(env.base_env, transform, cache_specs=env.cache_specs)
    return fused
