"""TorchRL's cases of what moves entries about: stacks of frames, joined keys, names, shapes, pictures."""

import pytest
import torch
from torchrl.data import Unbounded
from torchrl.envs import (
    CatFrames,
    CatTensors,
    CenterCrop,
    ExcludeTransform,
    FlattenObservation,
    GrayScale,
    ObservationNorm,
    PermuteTransform,
    RenameTransform,
    SelectTransform,
    SerialEnv,
    SqueezeTransform,
    Stack,
    TensorDictPrimer,
    TimeMaxPool,
    ToTensorImage,
    UnsqueezeTransform,
)
from torchrl.envs.utils import step_mdp
from ways import as_it_is, counted, needs_torchvision, transformed

NAMES = [None, ["stuff"], [("some_other", "nested_key")]]


def seeded_rollout(env, steps=6, **kwargs):
    torch.manual_seed(0)
    return env.rollout(steps, **kwargs)


def keys_of(td):
    return set(td.keys(True, True))


@pytest.fixture
def plain():
    """The same draws without a transform."""
    return seeded_rollout(transformed(as_it_is, "Draws-v0", SelectTransform(), num_envs=3).base_env)


# ---- CatFrames, TimeMaxPool


def test_frames_of_a_reset_and_of_a_step(way):
    env = transformed(way, "Pendulum-v1", CatFrames(N=3, dim=-1, in_keys=["observation"]))
    root = env.reset()
    first = root["observation"][..., :3].clone()
    assert torch.equal(root["observation"], first.repeat(1, 3))
    after = env.rand_step(root)["next", "observation"]
    assert torch.equal(after[..., :6], first.repeat(1, 2))
    assert (after[..., 6:] != first).any()


def test_a_clone_of_stacked_frames_has_what_it_had(way):
    env = transformed(way, "Pendulum-v1", CatFrames(N=3, dim=-1, in_keys=["observation"]))
    root = env.rand_step(env.reset())
    clone = env.transform.clone()
    frames = root["next", "observation"].clone()
    for _ in range(10):
        root = env.rand_step(step_mdp(root))
    assert (root["next", "observation"] != frames).any()
    assert clone is not env.transform
    assert torch.equal(env.transform._cat_buffers_observation, root["next", "observation"])


@pytest.mark.parametrize("dim", [-1, -2])
def test_frames_of_permuted_observations(way, dim):
    longer = UnsqueezeTransform(-1, in_keys=["observation"])
    swap = PermuteTransform((-1, -2), in_keys=["observation"])
    straight = [longer, CatFrames(N=4, dim=dim, in_keys=["observation"])]
    about = [longer.clone(), swap, CatFrames(N=4, dim=-3 - dim, in_keys=["observation"]), swap.clone()]
    a = seeded_rollout(transformed(way, "Pendulum-v1", *straight, num_envs=2))
    b = seeded_rollout(transformed(way, "Pendulum-v1", *about, num_envs=2))
    assert a["observation"].shape[-2:] == ((3, 4) if dim == -1 else (12, 1))
    assert torch.equal(a["next", "observation"], b["next", "observation"])


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("kind", [CatFrames, TimeMaxPool])
def test_a_batchs_frames_are_those_of_its_envs_alone(way, kind, stops):
    def make():
        keys = {"in_keys": ["observation"], "out_keys": ["frames"]}
        return CatFrames(N=3, dim=-1, **keys) if kind is CatFrames else TimeMaxPool(T=3, **keys)

    def rollout(env):
        env.set_seed(0)
        return seeded_rollout(env, 60, break_when_any_done=stops)

    together = rollout(transformed(way, "CartPole-v1", make(), num_envs=2, seed=None))
    alone = rollout(SerialEnv(2, lambda: transformed(as_it_is, "CartPole-v1", make(), seed=None))).squeeze(1)
    assert stops or together["next", "done"].any()
    for key in together.keys(True, True):
        assert torch.equal(together[key], alone[key]), key


def test_frames_of_nested_observations(way):
    key = ("agents", "observation")
    env = transformed(way, "Agents-v0", CatFrames(N=2, dim=-1, in_keys=[key], reset_key="_reset"), num_envs=2)
    data = env.rollout(3)
    assert data[key].shape == (2, 3, 3, 4)
    assert data[key][0, :, 0, ::2].tolist() == [[0, 0], [0, 1], [1, 2]]  # steps of agent 0
    assert data["next", *key][0, -1, 0, ::2].tolist() == [2, 3]


def test_bounds_of_frames(way):
    env = transformed(way, "Draws-v0", CatFrames(N=4, dim=-2, in_keys=["pixels"]), num_envs=2)
    spec = env.observation_spec["pixels"]
    assert spec.shape == (2, 8, 24, 3)
    assert spec.dtype is torch.uint8
    assert spec.space.low.unique() == 0
    assert spec.space.high.unique() == 255


@pytest.mark.parametrize("padding", ["same", "constant"])
def test_frames_begin_anew(way, padding):
    frames = CatFrames(N=3, dim=-1, in_keys=["observation"], padding=padding, padding_value=-1)
    env = transformed(way, "Count-v0", frames, end=2)
    data = env.rollout(4, counted_last, break_when_any_done=False)
    before = 0 if padding == "same" else -1
    assert data["observation"].squeeze(0).tolist() == [[before, before, 0], [before, 0, 1]] * 2
    assert data["next", "observation"].squeeze(0).tolist() == [[before, 0, 1], [0, 1, 2]] * 2


def counted_last(td):
    """As counted, where the newest frame alone matters."""
    return td.update(counted(td.select("observation")).select("action"))


@pytest.mark.parametrize("offline", [{"future": True}, {"mask_key": "mask"}])
def test_frames_that_only_stored_data_has(way, offline):
    env = transformed(way, "Draws-v0", CatFrames(N=2, dim=-1, in_keys=["observation"], **offline))
    with pytest.raises(RuntimeError, match="offline"):
        env.reset()


@pytest.mark.parametrize("out_keys", NAMES)
def test_maxima_over_time(way, plain, out_keys):
    pool = TimeMaxPool(in_keys=["observation"], out_keys=out_keys, T=3)
    data = seeded_rollout(transformed(way, "Draws-v0", pool, num_envs=3))
    name = out_keys[0] if out_keys else "observation"
    key = ("next", name) if isinstance(name, str) else ("next", *name)
    seen = torch.cat([plain["observation"][:, :1], plain["next", "observation"]], 1)
    seen = torch.cat([torch.zeros_like(seen[:, :2]), seen], 1)  # the ring begins with zeros
    expected = torch.stack([seen[:, 1:-2], seen[:, 2:-1], seen[:, 3:]]).amax(0)
    assert torch.equal(data[key], expected)


# ---- CatTensors, Stack


@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("deletes", [True, False])
@pytest.mark.parametrize("out", ["both", ("some", "nested")])
def test_joined_tensors(way, plain, sort, deletes, out):
    keys = ["observation", "bounded"]
    env = transformed(way, "Draws-v0", CatTensors(keys, out, del_keys=deletes, sort=sort), num_envs=3)
    assert env.observation_spec[out].shape == (3, 14)
    for key in keys:
        assert (key in env.observation_spec.keys(True)) is not deletes
        assert key in env.base_env.observation_spec.keys(True)
    order = sorted(keys) if sort else keys
    data = seeded_rollout(env)
    assert torch.equal(data[out], torch.cat([plain[key] for key in order], -1))
    assert ("observation" in data.keys(True)) is not deletes


@pytest.mark.parametrize("deletes", [True, False])
@pytest.mark.parametrize("dim", [-1, -2])
def test_stacked_tensors(way, plain, deletes, dim):
    twin = RenameTransform(["observation"], ["twin"], create_copy=True)
    shift = ObservationNorm(1.0, 1.0, ["twin"])
    stack = Stack(["observation", "twin"], "stacked", dim=dim, del_keys=deletes)
    env = transformed(way, "Draws-v0", twin, shift, stack, num_envs=3)
    data = seeded_rollout(env)
    assert torch.equal(data["stacked"], torch.stack([plain["observation"], plain["observation"] + 1], dim))
    assert ("observation" in data.keys(True)) is not deletes
    assert ("twin" in env.observation_spec.keys(True)) is not deletes


# ---- names


@pytest.mark.parametrize("copies", [True, False])
def test_renamed_observations(way, plain, copies):
    env = transformed(
        way, "Draws-v0", RenameTransform(["observation"], ["stuff"], create_copy=copies), num_envs=3
    )
    data = seeded_rollout(env)
    assert torch.equal(data["next", "stuff"], plain["next", "observation"])
    assert ("observation" in data.keys(True)) is copies
    assert (("next", "observation") in data.keys(True)) is copies


@pytest.mark.parametrize("copies", [True, False])
def test_renamed_rewards_and_flags(way, plain, copies):
    env = transformed(
        way,
        "Draws-v0",
        RenameTransform(["done", "reward"], [("nested", "over"), ("nested", "reward")], create_copy=copies),
        num_envs=3,
        end=4,
    )
    assert ("nested", "over") in env.done_keys
    assert ("nested", "reward") in env.reward_keys
    assert ("done" in env.done_keys) is copies
    assert ("reward" in env.reward_keys) is copies
    data = seeded_rollout(env, 4)
    assert torch.equal(data["next", "nested", "reward"], plain["next", "reward"][:, :4])
    assert data["next", "nested", "over"][:, -1].all()


@pytest.mark.parametrize("copies", [True, False])
def test_renamed_actions(way, copies):
    rename = RenameTransform([], [], ["action"], [("renamed", "action")], create_copy=copies)
    env = transformed(way, "Draws-v0", rename, num_envs=3)
    assert ("renamed", "action") in env.action_keys
    assert ("action" in env.action_keys) is copies
    data = env.rollout(3)
    assert ("action" in data.keys(True)) is copies
    assert torch.equal(data["next", "received"], data["renamed", "action"])


@pytest.mark.parametrize(
    "transform", [ExcludeTransform("bounded"), SelectTransform("observation", "precise")]
)
def test_entries_that_are_left_out(way, transform):
    env = transformed(way, "Draws-v0", transform, num_envs=3)
    for td in (env.reset(), env.rollout(3), env.rollout(3)["next"]):
        assert "bounded" not in td.keys(True)
        assert "observation" in td.keys(True)
        assert "done" in td.keys(True)


@pytest.mark.parametrize("named", ["done", "reward"])
@pytest.mark.parametrize("kept", [True, False])
def test_flags_and_rewards_that_are_left_out(way, named, kept):
    select = SelectTransform("observation", **{f"keep_{named}s": kept})
    env = transformed(way, "Draws-v0", select, num_envs=3)
    assert (named in getattr(env, f"{named}_keys")) is kept
    assert named in getattr(transformed(way, "Draws-v0", SelectTransform(named)), f"{named}_keys")
    assert named not in getattr(transformed(way, "Draws-v0", ExcludeTransform(named)), f"{named}_keys")
    data = env.rand_step(env.reset())
    assert (named in data["next"].keys(True)) is kept


@pytest.mark.parametrize("transform", [ExcludeTransform, SelectTransform])
def test_nested_entries_that_are_left_out(way, transform):
    key = ("agents", "observation")
    kept = transformed(way, "Agents-v0", transform(key), num_envs=2).rollout(2)
    nothing_named = transformed(way, "Agents-v0", transform(), num_envs=2).rollout(2)
    for data, has in ((kept, transform is SelectTransform), (nothing_named, transform is ExcludeTransform)):
        assert (key in keys_of(data)) is has
        assert (("next", *key) in keys_of(data)) is has
        assert {("next", "agents", "reward"), ("agents", "done"), ("agents", "action")} <= keys_of(data)


# ---- shapes


@pytest.mark.parametrize("out_keys", NAMES)
def test_flat_pictures(way, plain, out_keys):
    env = transformed(way, "Draws-v0", FlattenObservation(-3, -1, out_keys=out_keys), num_envs=3)
    data = seeded_rollout(env)
    out = out_keys[0] if out_keys else "pixels"
    assert torch.equal(data[out], plain["pixels"].flatten(-3, -1))
    assert env.observation_spec[out].shape == (3, 8 * 6 * 3)


@pytest.mark.parametrize("out_keys", NAMES[:2])
@pytest.mark.parametrize("dim", [-1, -2])
def test_longer_and_shorter_shapes(way, plain, out_keys, dim):
    longer = UnsqueezeTransform(dim, in_keys=["observation"], out_keys=out_keys)
    name = out_keys[0] if out_keys else "observation"
    shorter = SqueezeTransform(dim, in_keys=[name], out_keys=["squeezed"])
    env = transformed(way, "Draws-v0", longer, shorter, num_envs=3)
    data = seeded_rollout(env)
    assert torch.equal(data[name], plain["observation"].unsqueeze(dim))
    assert torch.equal(data["squeezed"], plain["observation"])
    assert env.observation_spec[name].shape == data[name][:, 0].shape


def test_permuted_pictures(way, plain):
    permute = PermuteTransform((-1, -2, -3), in_keys=["pixels"])
    env = transformed(way, "Draws-v0", permute, num_envs=3)
    assert env.observation_spec["pixels"].shape == (3, 3, 6, 8)
    assert torch.equal(seeded_rollout(env)["pixels"], plain["pixels"].permute(0, 1, 4, 3, 2))
    with pytest.raises(ValueError, match="Only tailing dims with negative"):
        PermuteTransform((-1, -10))


@pytest.mark.parametrize("out_keys", NAMES)
@pytest.mark.parametrize("from_int", [None, True, False])
def test_pictures_as_tensors(way, plain, out_keys, from_int):
    env = transformed(way, "Draws-v0", ToTensorImage(from_int, out_keys=out_keys), num_envs=3)
    out = out_keys[0] if out_keys else "pixels"
    expected = plain["pixels"].permute(0, 1, 4, 2, 3)
    expected = (expected.float() if from_int is False else expected.div(255)).float()
    assert torch.equal(seeded_rollout(env)[out], expected)
    assert env.observation_spec[out].dtype is torch.float32


@pytest.mark.parametrize("out_keys", NAMES)
def test_grey_pictures(way, out_keys):
    env = transformed(way, "Draws-v0", ToTensorImage(), GrayScale(out_keys=out_keys), num_envs=3)
    data = seeded_rollout(env)
    out = out_keys[0] if out_keys else "pixels"
    assert data[out].shape == (3, 6, 1, 8, 6)
    assert 0.2 < data[out].mean() < 0.8
    assert (data["pixels"].shape[-3] == 3) is (out_keys is not None)


@pytest.mark.parametrize("out_keys", NAMES)
def test_cropped_pictures(way, out_keys):
    needs_torchvision()
    crop = CenterCrop(w=4, h=2, in_keys=["pixels"], out_keys=out_keys)
    env = transformed(way, "Draws-v0", ToTensorImage(), crop, num_envs=3)
    data = seeded_rollout(env)
    whole = seeded_rollout(transformed(as_it_is, "Draws-v0", ToTensorImage(), num_envs=3))["pixels"]
    out = out_keys[0] if out_keys else "pixels"
    height, width = data[out].shape[-2:]
    top, left = (8 - height) // 2, (6 - width) // 2
    assert torch.equal(data[out], whole[..., top : top + height, left : left + width])
    assert {height, width} == {2, 4}


def test_a_cropped_picture_of_atari(way):
    needs_torchvision()
    options = {"num_envs": 2, "from_pixels": True, "pixels_only": True}
    env = transformed(way, "ALE/Pong-v5", ToTensorImage(), CenterCrop(20, 20), **options)
    assert env.rollout(3)["pixels"].shape == (2, 3, 3, 20, 20)


def test_a_flat_picture_of_atari(way):
    options = {"num_envs": 2, "from_pixels": True, "pixels_only": True}
    env = transformed(way, "ALE/Pong-v5", FlattenObservation(-3, -1), **options)
    assert env.rollout(3)["pixels"].ndim == 3


# ---- TensorDictPrimer


@pytest.mark.parametrize("default", [0.0, 2.5])
def test_primed_states_travel_until_the_next_reset(way, default):
    primer = TensorDictPrimer(hidden=Unbounded((2, 3)), default_value=default, expand_specs=True)
    env = transformed(way, "Count-v0", primer, num_envs=3, end=2)
    assert env.observation_spec["hidden"].shape == (3, 2, 3)
    assert env.state_spec["hidden"].shape == (3, 2, 3)

    def grow(td):
        counted(td)["next", "hidden"] = td["hidden"] + 1
        return td

    data = env.rollout(4, grow, break_when_any_done=False)
    grown = (data["hidden"] - default)[0, :, 0, 0]
    assert grown.tolist() == [0, 1, 0, 1]
    assert ((data["next", "hidden"] - default)[0, :, 0, 0]).tolist() == [1, 2, 1, 2]
