"""Programs that tests run in a process of their own, under a timer."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
from functools import cache
from pathlib import Path

from building import build_plugin

FOLDER = Path(__file__).parent
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
    """Runs the body after the prelude and returns what it printed."""
    return printed(PRELUDE + textwrap.dedent(body), build_plugin("fault"), timeout=timeout)


def printed(program, *arguments, **settings):
    """What a program prints, which must end by itself and without an error."""
    result = run_program(program, *arguments, **settings)
    assert result.returncode == 0, f"exit code {result.returncode}: {result.stderr}"
    return result.stdout


def run_program(program, *arguments, cwd=FOLDER, timeout=240, **environment):
    """Runs a program as a new interpreter would that has torch and TorchRL already; see ``forked.py``.

    After ``timeout`` seconds it is killed.
    """
    request = {
        "program": program,
        "arguments": list(map(str, arguments)),
        "cwd": str(cwd),
        "environment": {**os.environ, **environment},
        "timeout": timeout,
    }
    ended, status = os.pipe()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors, open(ended) as end:
        descriptors = [output.fileno(), errors.fileno(), status]
        try:
            socket.send_fds(_server()[0], [json.dumps(request).encode()], descriptors)
        finally:
            os.close(status)
        code = os.waitstatus_to_exitcode(int(end.read()))
        for file in (output, errors):
            file.seek(0)
        return subprocess.CompletedProcess(program, code, output.read(), errors.read())


@cache
def _server():
    """What forks, and the way to it, at whose end it ends."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", "exec(__import__('forked').program())"],
            stdin=theirs,
            cwd=FOLDER,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # no threads at import
            start_new_session=True,  # Ctrl-C is for the tests
        )
    return ours, process


def descendants(process):
    """The processes that it has started, and theirs; those that have ended but were not waited for too."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            parents[int(pid)] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    found = {process}
    while new := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= new
    return found - {process}
