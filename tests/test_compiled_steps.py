"""Functions that step envs and are compiled by torch: one graph, and the data of the eager calls."""

import pytest
import torch
from torch._dynamo.utils import counters
from torchrl.envs import Compose, RewardSum, StepCounter, TransformedEnv

from torchrl_pool import PoolEnv, fuse

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


def assert_equal(ours, theirs):
    keys = set(theirs.keys(True, True))
    assert set(ours.keys(True, True)) == keys
    for key in keys:
        assert ours[key].dtype is theirs[key].dtype, key
        assert torch.equal(ours[key], theirs[key]), key


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
        assert_equal(data, wanted)
        assert_equal(root, expected)
        ended |= bool(data["next", "done"].any())
    assert ended
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]


def test_rollout_of_fused_transforms():
    """One graph, through ends of episodes; and no step with transforms that were changed since."""
    compiled = torch.compile(rollout, fullgraph=True, backend="aot_eager")
    roots = []
    for _ in range(2):
        env = fuse(TransformedEnv(make(), Compose(RewardSum(), StepCounter(2))))
        torch.manual_seed(0)
        roots.append((env, env.rand_action(env.reset())))
    (ours, root), (theirs, expected) = roots
    ended = False
    for _ in range(4):
        data, root = compiled(ours, root, 2)
        wanted, expected = rollout(theirs, expected, 2)
        assert_equal(data, wanted)
        assert_equal(root, expected)
        ended |= bool(data["next", "done"].any())
    assert ended
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]
    ours.transform[1].max_steps = 5
    with pytest.raises(RuntimeError, match="transforms have been changed"):
        compiled(ours, root, 2)


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
    assert_equal(found, theirs.rollout(12, break_when_any_done=False))
    assert not counters["graph_break"]


def test_transformed():
    options = {"compile": {"backend": "aot_eager"}}
    found = []
    for given in (options, {}):
        env = TransformedEnv(make(), StepCounter(), **given)
        torch.manual_seed(0)
        found.append(env.rollout(9, break_when_any_done=False))
    assert_equal(*found)


@pytest.mark.parametrize("mask", [[True, False, True], [False] * N])
def test_masks(mask):
    def both(env, root, mask):
        root = env.reset(root.set("_reset", mask[:, None]))
        root["action"] = torch.nn.functional.one_hot(torch.zeros(N, dtype=torch.int64), 2)
        return env.step(root.set("_step", mask))

    found = []
    # EnvBase.reset looks whether all envs that were to be reset are: that breaks the graph.
    for call in (torch.compile(both, backend="aot_eager"), both):
        env = make()
        _, root = rollout(env, env.reset(), 2)
        found.append(call(env, root, torch.tensor(mask)))
    assert_equal(*found)


def test_failures():
    env = make()
    root = env.reset()
    compiled = torch.compile(rollout, fullgraph=True, backend="aot_eager")
    compiled(env, root.clone(), 1)
    env.close()
    with pytest.raises(RuntimeError, match="call reset"):
        compiled(env, root.clone(), 1)
