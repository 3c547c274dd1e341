"""A process in which a reference runs beside a pool, as settings read at its start want it."""

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path

# As the C library computes exp, log1p, arcsinh, arctan2 and tanh; by default NumPy has kernels of its own.
PLAIN_NUMPY = {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL"}


class Child:
    """Asks functions of a program in this folder, which ends with ``serve(globals())``.

    Args:
        program: the name of its file.
        settings: environment variables.
        flags: of the interpreter.
    """

    def __init__(self, program, settings, flags=()):
        command = [sys.executable, "-W", "ignore", *flags, str(Path(__file__).with_name(program))]
        environment = {**os.environ, **settings}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, function, **arguments):
        self.process.stdin.write(json.dumps([function, arguments]) + "\n")
        self.process.stdin.flush()
        answer, error = json.loads(self.process.stdout.readline())
        assert error is None, error
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def serve(functions):
    """Reads lines of JSON, each a function's name and its arguments, and answers each with what it gives."""
    import torch

    torch.set_num_threads(1)
    for line in sys.stdin:
        torch.manual_seed(0)
        try:
            name, arguments = json.loads(line)
            answer = [functions[name](**arguments), None]
        except Exception:
            answer = [None, traceback.format_exc()]
        print(json.dumps(answer), flush=True)
