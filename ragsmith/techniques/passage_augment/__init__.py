"""Passage augmenters convert hits to passages: contiguous texts around the retrieved chunks.

They change the input of the generator but not the ranking that retrieval measures score.
"""
