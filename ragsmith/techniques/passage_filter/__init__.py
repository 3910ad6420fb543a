"""Passage filters select from the ranked candidates.

The selected candidates are scored by the measures of retrieval and are the input of the later stages.
"""
