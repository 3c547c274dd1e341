"""A Ray node on each of several hosts that are apart: on the first, the head, learners run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Self

from hosts.namespaces import Hosts, address_of

ADDRESS = f"{address_of(0)}:6379"
RAY = [sys.executable, "-c", "from ray.scripts.scripts import main; main()"]
# Ray's own settings: a node that does not answer is given up after about ten seconds, not a minute.
SETTINGS = {
    "RAY_AUTH_MODE": "disabled",  # no one else is on this network
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "4",
}


class RayHosts(Hosts):
    """Hosts with Ray.

    Args:
        number: of hosts, the head among them.
        cpus: actors that each of the others has room for.
    """

    def __init__(self, number: int, cpus: int = 2) -> None:
        super().__init__(number)
        self._cpus = cpus
        self.environment = {**os.environ, **SETTINGS}

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            for host in range(self.number):
                self.start_ray(host)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def start_ray(self, host: int) -> None:
        role = [f"--address={ADDRESS}", f"--num-cpus={self._cpus}"]
        if host == 0:
            role = ["--head", "--port=6379", "--num-cpus=0", "--include-dashboard=false", "--no-monitor"]
        own = [f"--node-ip-address={address_of(host)}", "--object-store-memory=200000000"]
        own += ["--include-log-monitor=false"]
        command = self.on(host, *RAY, "start", *role, *own)
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError(f"Ray does not start on host {host}: {done.stdout}{done.stderr}")

    def learner(self, program: str, *options: str, output: Path) -> subprocess.Popen[bytes]:
        """Starts a training on the head; what it prints goes to a file."""
        command = [sys.executable, "-m", f"torchrl_pool.examples.{program}", "--address", ADDRESS, *options]
        with output.open("w") as file:
            return subprocess.Popen(
                self.on(0, *command), env=self.environment, stdout=file, stderr=subprocess.STDOUT
            )
