"""From a chain of transforms to the longest part of it, from the env outwards, that runs natively."""

from __future__ import annotations

from dataclasses import dataclass

from torchrl.envs import Compose, EnvBase, Transform, TransformedEnv

from torchrl_pool._env.pool_env import PoolEnv
from torchrl_pool._transforms.chain import Chain
from torchrl_pool._transforms.chain_builder import ChainBuilder, NotNative, Watched, watched_name
from torchrl_pool._transforms.native import NATIVE

# What a native form stands for, and an instance may have of its own.
_METHODS = {"_apply_transform", "_call", "_step", "_reset", "_inv_apply_transform", "_inv_call"}


@dataclass(frozen=True)
class Fusion:
    """What becomes of the transforms of an env."""

    chain: Chain  # of the native ones: of the pool alone, if none is
    native: list[Transform]  # the first ones
    rest: list[Transform]  # TorchRL runs these
    why_not: str  # why the first of the rest is not native; empty: there is no rest
    watched: list[Watched]  # what they were made from

    @property
    def num_native(self) -> int:
        """How many of them run natively."""
        return len(self.native)


def transforms_of(env: TransformedEnv) -> list[Transform]:
    """The transforms of an env one by one."""
    transform = env.transform
    return list(transform.transforms) if type(transform) is Compose else [transform]


def is_fusible(env: EnvBase) -> bool:
    """Whether this is an env with transforms of which the executor may run some."""
    return type(env) is TransformedEnv and isinstance(env.base_env, PoolEnv) and env.base_env._writes_entries


def fuse_chain(env: TransformedEnv) -> Fusion:
    """Translates the transforms of an env that is fusible.

    Specs that the env remembers are looked at: they must be those of its transforms.
    """
    base = env.base_env
    assert isinstance(base, PoolEnv)
    transforms = transforms_of(env)
    builders, why_not = _builders(base, transforms)
    watched = [*_composition(env, transforms), *builders[-1].watched]
    while num_native := len(builders) - 1:
        misfit = builders[-1].fits(_env_behind(env, transforms, num_native))
        if misfit is None:
            break
        why_not = misfit
        builders.pop()
    native, rest = transforms[:num_native], transforms[num_native:]
    return Fusion(Chain(builders[-1]), native, rest, why_not, watched)


def _builders(base: PoolEnv, transforms: list[Transform]) -> tuple[list[ChainBuilder], str]:
    """The chain before and after each native transform, to be built, and why the next one is none."""
    builders = [ChainBuilder.of(base)]
    for transform in transforms:
        builder = builders[-1].copy()
        describe = NATIVE.get(type(transform))
        builder.watch(transform.__dict__, *_METHODS)
        try:
            if describe is None:
                raise NotNative(f"no native form of {type(transform).__name__} is known")
            if own := _METHODS & transform.__dict__.keys():
                raise NotNative(f"its method {min(own)!r} was replaced")
            describe(transform, builder)
        except NotNative as error:
            builders[-1].watched = builder.watched  # what made it so may change
            return builders, str(error)
        builders.append(builder)
    return builders, ""


def _env_behind(env: TransformedEnv, transforms: list[Transform], count: int) -> EnvBase:
    """The env with the first transforms alone."""
    if count == len(transforms):
        return env
    parent = transforms[count].parent
    assert parent is not None
    return parent


def _composition(env: TransformedEnv, transforms: list[Transform]) -> list[Watched]:
    watched: list[Watched] = [watched_name(env._modules, "_transform")]
    if type(env.transform) is Compose:
        modules = env.transform.transforms._modules
        watched += [watched_name(modules, name) for name in (*modules, str(len(transforms)))]
        watched.append(watched_name(env.transform._modules, "transforms"))
    return watched
