"""Embedded models: classical methods and static vectors, without keys, GPUs or networks."""
