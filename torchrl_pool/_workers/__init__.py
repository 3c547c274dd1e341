"""Python envs in processes of their own; nothing here needs torch, but for envs that do."""
