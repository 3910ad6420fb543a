"""Prompt makers decide the order in which the generator is shown its passages.

A prompt holds every passage exactly once, as numbered blocks.
"""
