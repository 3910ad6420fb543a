"""Anchoring locates quotations and answers in documents, with an estimate of certainty.

Ambiguous and missing ones are reported with candidates.
"""
