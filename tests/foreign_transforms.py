"""Transforms of which no native form is known, each doing something else to what it gets."""

import torch
from torchrl.data import NonTensor, Unbounded
from torchrl.envs import Transform


class AddsAnEntry(Transform):
    """Of the step's, and of the root's where an episode begins."""

    def _call(self, next_tensordict):
        return next_tensordict.set("squared", next_tensordict["observation"].square())

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec):
        old = observation_spec["observation"]
        observation_spec["squared"] = Unbounded(shape=old.shape, dtype=old.dtype, device=old.device)
        return observation_spec


class ChangesInPlace(Transform):
    def _call(self, next_tensordict):
        next_tensordict["observation"].mul_(2)
        return next_tensordict

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)


class Replaces(Transform):
    """The observation by one of another shape, and rewards by others."""

    def _call(self, next_tensordict):
        observation = next_tensordict["observation"]
        next_tensordict["observation"] = torch.cat([observation, observation[..., :1] + 1], -1)
        if "reward" in next_tensordict:
            next_tensordict["reward"] = next_tensordict["reward"] - 0.5
        return next_tensordict

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec):
        old = observation_spec["observation"]
        shape = (*old.shape[:-1], old.shape[-1] + 1)
        observation_spec["observation"] = Unbounded(shape=shape, dtype=old.dtype, device=old.device)
        return observation_spec

    def transform_reward_spec(self, reward_spec):
        old = reward_spec["reward"]
        reward_spec["reward"] = Unbounded(shape=old.shape, dtype=old.dtype, device=old.device)
        return reward_spec


class TakesAway(Transform):
    """The observation, for another one under its own name."""

    def _call(self, next_tensordict):
        return next_tensordict.set("seen", next_tensordict["observation"] + 1).exclude("observation")

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)

    def transform_observation_spec(self, observation_spec):
        observation_spec["seen"] = observation_spec["observation"].clone()
        del observation_spec["observation"]
        return observation_spec


class TurnsActions(Transform):
    """The policy's actions are the env's in reverse order."""

    def _inv_call(self, tensordict):
        return tensordict.set("action", tensordict["action"].flip(-1).contiguous())


class Remembers(Transform):
    """In itself, the rewards of each episode, of which it shows the mean; and how many it has begun."""

    def __init__(self):
        super().__init__()
        self.sums = self.counts = None
        self.resets = 0

    def _step(self, tensordict, next_tensordict):
        self.sums = self.sums + next_tensordict["reward"]
        self.counts = self.counts + 1
        return next_tensordict.set("mean_reward", self.sums / self.counts)

    def _reset(self, tensordict, tensordict_reset):
        whole = torch.zeros(*tensordict_reset.shape, 1)
        mask = tensordict.get("_reset", torch.ones_like(whole, dtype=torch.bool))
        self.resets += int(mask.sum())
        self.sums = whole if self.sums is None else torch.where(mask, whole, self.sums)
        self.counts = whole if self.counts is None else torch.where(mask, whole, self.counts)
        return tensordict_reset.set("mean_reward", whole + self.resets)

    def transform_observation_spec(self, observation_spec):
        observation_spec["mean_reward"] = Unbounded(shape=(*observation_spec.shape, 1))
        return observation_spec


class EndsEpisodes(Transform):
    """Where the pole leans, before the env does so."""

    def _step(self, tensordict, next_tensordict):
        leans = next_tensordict["observation"][..., 2:3].abs() > 0.05
        for key in ("truncated", "done"):
            next_tensordict[key] = next_tensordict[key] | leans
        return next_tensordict


class LearnsFromAll(Transform):
    """Means over all envs, of those that go on, too, while others begin their episodes."""

    def __init__(self):
        super().__init__()
        self.mean = torch.zeros(())

    def _call(self, next_tensordict):
        observation = next_tensordict["observation"]
        self.mean = 0.9 * self.mean + 0.1 * observation.mean(0)
        return next_tensordict.set("observation", observation - self.mean)

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)


class HandsParametersOn(Transform):
    """Counts as nn.Parameter, which the executor does not read."""

    def _inv_call(self, tensordict):
        counts = tensordict["step_count"]
        return tensordict.set("step_count", torch.nn.Parameter(counts, requires_grad=False))


class SaysWords(Transform):
    def _call(self, next_tensordict):
        return next_tensordict.set_non_tensor("word", "step")

    def _reset(self, tensordict, tensordict_reset):
        return tensordict_reset.set_non_tensor("word", "reset")

    def transform_observation_spec(self, observation_spec):
        observation_spec["word"] = NonTensor(shape=observation_spec.shape)
        return observation_spec


class Keeps(Transform):
    """Keeps what it has been given, and looks whether anybody writes to it."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def _call(self, next_tensordict):
        observation = next_tensordict["observation"]
        self.kept.append((observation, observation.clone()))
        return next_tensordict

    def _reset(self, tensordict, tensordict_reset):
        return self._call(tensordict_reset)
