"""FusedEnv: a TransformedEnv whose transforms run where the envs run, as far as they can."""

from __future__ import annotations

import warnings
from typing import Any

from tensordict import TensorDictBase
from torchrl.envs import Compose, EnvBase, Transform, TransformedEnv

from torchrl_pool import _core
from torchrl_pool._env.arguments import check_mask, mask_of_reset
from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._env.tracing import not_traced
from torchrl_pool._transforms.fusion import Fusion, fuse_chain, is_fusible, transforms_of
from torchrl_pool._transforms.native_part import NativePart


class FusedEnv(TransformedEnv):
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
            part = NativePart(self.base_env, fusion, self.action_keys, self.done_keys)
            self.__dict__.update(_fusion=fusion, _part=part)
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
        self.__dict__.update(_fusion=None)
        super().empty_cache()

    def to(self, *args: Any, **kwargs: Any) -> FusedEnv:
        """As :meth:`torchrl.envs.TransformedEnv.to`."""
        env: FusedEnv = super().to(*args, **kwargs)
        self.__dict__.update(_fusion=None)
        return env

    def __reduce__(self) -> Any:
        # Transforms point back at their env: copies of them, with the same tensors, do not.
        return _rebuild, (self.base_env, _apart(self.transform))

    # ---- steps

    @not_traced
    def step_and_maybe_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """As :meth:`PoolEnv.step_and_maybe_reset`; one visit of each env where all transforms are native."""
        native = self.native()
        base, stepped = native.env, None
        if not native.rest and not base._run_type_checks and base._post_step_mdp_hooks is None:
            stepped = native.step_and_maybe_reset(self, tensordict, native.advance)
        return self._step_then_reset(tensordict) if stepped is None else stepped

    def _step_then_reset(self, tensordict: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        stepped: tuple[TensorDictBase, TensorDictBase] = super().step_and_maybe_reset(tensordict)
        return stepped

    @not_traced
    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        native = self.native()
        root = tensordict
        for transform in reversed(native.rest):
            root = transform.inv(root)
        mask = root.get("_step", None)  # the caller's, or one that a transform has written
        if mask is not None:
            mask = check_mask("_step", mask, native.num_envs)
            if not mask.any():
                skipped: TensorDictBase = self._skip_tensordict(root.exclude("_step"))
                return skipped
            if mask.all():
                root, mask = root.exclude("_step"), None
        following = native.step(root) if mask is None else None
        following = self._torchrl_step(root) if following is None else _with_preset(following, root)
        for transform in native.rest:
            following = transform._step(root, following)
        return following

    def _torchrl_step(self, root: TensorDictBase) -> TensorDictBase:
        """TorchRL's own code of the native transforms: of some envs, or of entries unlike the specs."""
        transforms = self.native().transforms
        for transform in reversed(transforms):
            root = transform.inv(root)
        following = _with_preset(self.base_env._step(root), root)
        for transform in transforms:
            following = transform._step(root, following)
        return self._without_emptied(following)

    def _without_emptied(self, tensordict: TensorDictBase) -> TensorDictBase:
        """What TorchRL's code has made, which keeps tensordicts that have lost all their entries."""
        for path in self.native().chain.emptied:
            group = tensordict.get(path, None)
            if group is not None and group.is_empty():
                tensordict.del_(path)
        return tensordict

    @not_traced
    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        native, source = self.native(), tensordict
        if not native.knows_others and mask_of_reset(source, native.num_envs) is not None:
            return self._without_emptied(super()._reset(tensordict, **kwargs))
        if source is not None:
            # Not state_keys, which TorchRL keeps where transforms are appended.
            state_keys = self.state_spec.keys(True, True)
            source = source.select(*self.reset_keys, *state_keys, strict=False)
        for transform in reversed(native.rest):
            source = transform._reset_env_preprocess(source)
        root: TensorDictBase = native.reset(source, **kwargs)
        source = root.empty() if source is None else source
        for transform in native.rest:
            root = transform._reset(source, root)
        return root


def _with_preset(following: TensorDictBase, root: TensorDictBase) -> TensorDictBase:
    """``"next"`` with what the root's has already and the env does not write."""
    preset = root.get("next", None)
    return following if preset is None else following.update(preset.exclude(*following.keys(True, True)))


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
    if isinstance(env, (FusedEnv, PoolEnv)):
        return env
    if not is_fusible(env):
        if type(env) is TransformedEnv and isinstance(env.base_env, PoolEnv):
            return env
        raise TypeError(f"expected a PoolEnv, or a TransformedEnv around one, got {env!r}")
    transform = env.transform
    transform.reset_parent()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of a new container, which the first one has given already
        fused = FusedEnv(env.base_env, transform, cache_specs=env.cache_specs)
    return fused
