"""Programs that tests run in a process of their own, under a timer."""

import subprocess
import sys
import textwrap
from pathlib import Path

from building import build_plugin

PRELUDE = """
import os, pickle, signal, sys, threading, time
import torch
torch.set_num_threads(1)
from torchrl_pool import EnvFailure, PoolEnv, load_plugin
load_plugin(sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it

def zeros(env):
    return env.full_action_spec.zero()["action"]

def refused(error, message, call, *args, **kwargs):
    "The call raises this, and says that."
    try:
        call(*args, **kwargs)
    except error as raised:
        assert message in str(raised), f"{raised} lacks {message}"
        return raised
    raise AssertionError(f"nobody said {message!r}")
"""


def run(body, timeout=240):
    """Runs the body and returns what it printed; it must end by itself and without an error."""
    result = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(body), build_plugin("fault")],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=Path(__file__).parent,
        check=False,
    )
    assert result.returncode == 0, f"exit code {result.returncode}: {result.stderr}"
    return result.stdout
