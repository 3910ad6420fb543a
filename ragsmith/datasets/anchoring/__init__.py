"""Anchoring finds the place of a quotation, or of an answer, in the documents, and says how sure it is.

What stands in several places, or nowhere, is said to do so, with the places that come into question.
"""
