"""Data sets of documents, questions and the character spans that answer them.

They are read, validated, split and chunked here, without models.
"""
