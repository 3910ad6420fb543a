"""Prompt makers order the passages in the prompt of the generator.

Every passage is a numbered block and is shown once, unless the technique repeats some.
"""
