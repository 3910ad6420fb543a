"""Techniques: one function per file, in the folder of its family, registered by a decorator.

A technique is a pure function: models are passed as arguments.
"""
