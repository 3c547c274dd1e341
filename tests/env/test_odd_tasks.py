"""The training programs on envs with all kinds of spaces: what they take, and what they say of the rest."""

import pytest
from cases import cases

pytest.importorskip("tyro")

import odd_envs  # noqa: F401 (which registers them)

from torchrl_pool.examples import dqn, ppo, sac

SHORT = ["--num-envs", "2", "--total-frames", "128", "--evaluate", "1", "--quiet"]
OFF_POLICY = [*SHORT, "--learning-starts", "40", "--frames-per-row", "64", "--hidden", "16"]
WAYS = {
    "ppo": (ppo.PROGRAM, [*SHORT, "--frames-per-batch", "64", "--minibatch-size", "32"]),
    "dqn": (dqn.PROGRAM, OFF_POLICY),
    "sac": (sac.PROGRAM, OFF_POLICY),
}


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        *(("ppo", kind) for kind in ("Matrix", "Integers", "Flags", "Bools", "Bytes", "Numbers")),
        *(("dqn", kind) for kind in ("Matrix", "Integers", "Flags", "Bools", "Bytes", "Numbers")),
        *(("ppo", kind) for kind in ("Doubles", "Unbounded")),
        ("sac", "Doubles"),
    ],
)
def test_what_is_trained_on(way, kind, tmp_path, capsys):
    program, arguments = WAYS[way]
    assert not program.main(
        ["--task", f"gymnasium:odd_envs:{kind}-v0", *arguments, "--output", str(tmp_path)]
    )
    assert "7.0 ± 0.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("way", "kind", "message"),
    cases(
        default=[
            ("ppo", "Parts", "expected an entry 'observation', got 'a', 'b'"),
            ("dqn", "Pair", "expected an entry 'observation', got 'observation/0', 'observation/1'"),
            ("ppo", "MatrixActions", "expected one with Discrete actions, or vectors of floats"),
            ("sac", "Unbounded", "expected one with bounded actions"),
        ],
        also=[
            ("ppo", "Picture", "expected an entry 'observation', got 'pixels'"),
            ("dqn", "SmallPicture", "expected pictures [channels, 84, 84], got [1, 40, 40]"),
            ("dqn", "Choices", "expected one with Discrete actions, or vectors of floats"),
            ("sac", "MatrixActions", "expected one with Discrete actions, or vectors of floats"),
        ],
    ),
)
def test_what_is_refused(way, kind, message, tmp_path, capsys):
    program, arguments = WAYS[way]
    with pytest.raises(SystemExit) as exit_info:
        program.main(["--task", f"gymnasium:odd_envs:{kind}-v0", *arguments, "--output", str(tmp_path)])
    assert exit_info.value.code == 2
    assert f"--task: {message}" in capsys.readouterr().err


def test_what_cannot_be_normalised(tmp_path, capsys):
    with pytest.raises(SystemExit):
        ppo.PROGRAM.main(["--task", "FrozenLake-v1", "--normalize-observations", "--output", str(tmp_path)])
    assert "--normalize-observations: expected floating-point" in capsys.readouterr().err
