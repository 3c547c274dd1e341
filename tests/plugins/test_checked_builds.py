"""Plugins that are built with checks: what an author does wrong with a row fails the env, in words."""

import shutil
import textwrap

import pytest
import torch
from building import SOURCES
from processes import printed

from torchrl_pool import EnvFailure, PoolEnv, build_plugin
from torchrl_pool._plugins.building import compile_plugin
from torchrl_pool.testing import check_plugin


@pytest.fixture(scope="module", params=["g++", "clang++"])
def careless(request):
    """The task's id. Built with one compiler and then the other, where both are here."""
    compiler = shutil.which(request.param)
    if not compiler:
        pytest.skip(f"there is no {request.param} here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXX", compiler)
        (task,) = build_plugin(SOURCES / "careless.cc", checked=True)
    return task


MISTAKES = [
    ("another type", r"Row::Out\(0\): 'observation' is declared as float, used as double"),
    ("an index too high", r"Row::Out\(3\): MakeSpecs declares 3 entries that are not actions"),
    ("a negative index", r"Row::Out\(-1\): MakeSpecs declares 3 entries that are not actions"),
    (
        "another type of action",
        r"Row::Action\(0\): 'action' is declared as std::int64_t, used as std::int32_t",
    ),
    ("an action too many", r"Row::Action\(1\): MakeSpecs declares 1 actions"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_mistakes_fail_their_env_and_say_what_they_are(mistake, message, careless):
    env = PoolEnv(careless, 3, env_options=[{}, {"mistake": mistake}, {}], num_threads=2)
    root = env.reset(seed=0)
    for _ in range(3):  # again and again, after a reset
        with pytest.raises(EnvFailure, match=rf"in step 1: .*{message}") as caught:
            env.step(env.rand_action(root))
        assert caught.value.env_index == [1]
        root = env.reset()
    env.close()


def test_checking_a_plugin_finds_them(careless):
    message = f"{careless}: written bytes: .*'observation' is declared as float"
    with pytest.raises(AssertionError, match=message):
        check_plugin(careless, mistake="another type", steps=5)


def test_a_mistake_in_a_reset(careless):
    with pytest.raises(EnvFailure, match="in a reset: Row::Action: a reset has no actions"):
        PoolEnv(careless, 1, mistake="an action in reset").reset()


def test_a_sound_env_passes_and_gives_the_same_numbers(careless):
    assert "infos" in check_plugin(careless)
    checked = PoolEnv(careless, 3, seed=1, info_keys=("steps",))
    torch.manual_seed(0)
    expected = checked.rollout(20, break_when_any_done=False)
    build_plugin(SOURCES / "careless.cc", flags=("-O0",))  # takes the place of the one with checks
    plain = PoolEnv(careless, 3, seed=1, info_keys=("steps",))
    torch.manual_seed(0)
    assert (plain.rollout(20, break_when_any_done=False) == expected).all()
    build_plugin(SOURCES / "careless.cc", checked=True)


@pytest.mark.slow  # builds a plugin
def test_checks_are_a_library_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    checked, plain = (compile_plugin(SOURCES / "walk.cc", checked=checked) for checked in (True, False))
    assert checked != plain
    assert b"libubsan" not in checked.read_bytes()


@pytest.mark.slow  # builds plugins
@pytest.mark.parametrize("source", ["fault.cc", "liar.cc", "spaces.cc", "walk.cc"])
def test_the_envs_of_these_tests_use_their_rows_well(source):
    """In a process of its own: here their tasks may be loaded without checks."""
    code = f"""
        from torchrl_pool import build_plugin
        from torchrl_pool.testing import check_plugin
        for task in build_plugin({str(SOURCES / source)!r}, checked=True):
            if task != "Rare-v0":  # TorchRL's check_env_specs cannot clone unsigned integers
                check_plugin(task, steps=10)
    """
    printed(textwrap.dedent(code))
