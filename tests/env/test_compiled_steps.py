"""Functions that step envs and are compiled by torch: one graph, and the data of the eager calls."""

import pytest
import torch
from comparing import assert_td_equal
from torch._dynamo.utils import counters
from torchrl.envs import StepCounter, TransformedEnv

from torchrl_pool import PoolEnv

N = 3


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    counters.clear()


def make(**options):
    return PoolEnv("CartPole-v1", N, seed=0, num_threads=2, max_episode_steps=3, **options)


def rollout(env, root, steps):
    found = []
    for i in range(steps):
        hot = (root["observation"][:, 2] > 0).long() ^ (i % 2)
        root["action"] = torch.nn.functional.one_hot(hot, 2)
        step, root = env.step_and_maybe_reset(root)
        found.append(step)
    return torch.stack(found), root


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_rollout(backend):
    """Through ends of episodes of one env and of all, with what a root carries besides."""
    compiled = torch.compile(rollout, fullgraph=True, backend=backend)
    steps, ended = 2, False
    roots = []
    for env in (make(), make()):
        torch.manual_seed(0)
        root = env.rand_action(env.reset())
        root["memory"] = torch.arange(N).float() + 1
        roots.append((env, root))
    (ours, root), (theirs, expected) = roots
    for _ in range(4):
        data, root = compiled(ours, root, steps)
        wanted, expected = rollout(theirs, expected, steps)
        assert_td_equal(data, wanted)
        assert_td_equal(root, expected)
        ended |= bool(data["next", "done"].any())
    assert ended
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]


def test_no_step_is_left_out():
    """Equal calls whose results nobody uses are two steps."""
    env = make(info_keys=["step_count"])
    root = env.reset()
    root["action"] = torch.nn.functional.one_hot(torch.zeros(N, dtype=torch.int64), 2)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def thrice(root):
        env.step_and_maybe_reset(root.clone(recurse=False))
        env.step_and_maybe_reset(root.clone(recurse=False))
        return env.step_and_maybe_reset(root.clone(recurse=False))[0]

    assert (thrice(root)["next", "step_count"] == 3).all()


def test_compile_of_an_env():
    ours, theirs = make(), make()
    ours.compile(fullgraph=True, backend="aot_eager")
    torch.manual_seed(0)
    found = ours.rollout(12, break_when_any_done=False)
    torch.manual_seed(0)
    assert_td_equal(found, theirs.rollout(12, break_when_any_done=False))
    assert not counters["graph_break"]


def test_transformed():
    options = {"compile": {"backend": "aot_eager"}}
    found = []
    for given in (options, {}):
        env = TransformedEnv(make(), StepCounter(), **given)
        torch.manual_seed(0)
        found.append(env.rollout(9, break_when_any_done=False))
    assert_td_equal(*found)


@pytest.mark.parametrize("mask", [[True, False, True], [False] * N, [True] * N, None])
def test_resets(mask):
    """Of some envs, of none and of all, with what the root has besides, all flags or some."""

    def resets(env, root, mask):
        root["memory"] = root["observation"].sum(-1) + 1
        some = env.reset((root if mask is None else root.set("_reset", mask[:, None])).copy())
        return some, env.reset(root.select("_reset", "observation", "done", strict=False)), env.reset()

    found = []
    for call in (torch.compile(resets, fullgraph=True, backend="aot_eager"), resets):
        env = make()
        _, root = rollout(env, env.reset(), 2)
        found.append(call(env, root, None if mask is None else torch.tensor(mask)))
    for ours, theirs in zip(*found, strict=True):
        assert_td_equal(ours, theirs)


@pytest.mark.parametrize("mask", [[True, False, True], [False] * N])
def test_masks_of_steps(mask):
    def masked(env, root, mask):
        root["action"] = torch.nn.functional.one_hot(torch.zeros(N, dtype=torch.int64), 2)
        return env.step(root.set("_step", mask))

    found = []
    # EnvBase.step looks whether any env is to be stepped: that breaks the graph.
    for call in (torch.compile(masked, backend="aot_eager"), masked):
        env = make()
        _, root = rollout(env, env.reset(), 2)
        found.append(call(env, root, torch.tensor(mask)))
    assert_td_equal(*found)


def test_failures():
    env = make()
    root = env.reset()
    compiled = torch.compile(rollout, fullgraph=True, backend="aot_eager")
    compiled(env, root.clone(), 1)
    env.close()
    with pytest.raises(RuntimeError, match="call reset"):
        compiled(env, root.clone(), 1)
