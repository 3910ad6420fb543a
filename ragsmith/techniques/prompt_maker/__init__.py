"""Prompt makers decide the order in which the generator is shown its passages.

A prompt holds every passage, as numbered blocks: once, unless a technique is there to repeat some.
"""
