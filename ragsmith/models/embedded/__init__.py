"""Embedded models: classical methods and static vectors that need no key, GPU, network or service."""
