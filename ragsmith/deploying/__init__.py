"""Starter kits: folders with everything that a pipeline needs to run on another machine.

Paths in a kit are relative, it contains no keys, and it includes the version of ragsmith that wrote it as a wheel.
"""
