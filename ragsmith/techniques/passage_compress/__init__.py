"""Passage compressors condense the passages to what the question needs.

A condensed passage names as its sources everything that it was made from.
"""
