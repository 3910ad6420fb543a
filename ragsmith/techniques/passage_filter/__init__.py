"""Passage filters decide which of the ranked candidates are kept.

What passes a filter is what retrieval is scored on, and all that the later stages can read.
"""
