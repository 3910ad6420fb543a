"""Passage compressors condense passages to the content relevant to the question.

The sources of a condensed passage are all spans of its inputs.
"""
