"""Passage augmenters turn hits into passages: contiguous texts read around the chunks that were found.

They change what the generator can read, never what counts as retrieved.
"""
