"""What runs inside a worker process, and the pool's view of all; no torch, but for envs that need it."""
