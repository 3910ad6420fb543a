"""A diagnosis says what became of a question on its way through a pipeline, and what a part of a pipeline does.

It is worked out from traces and from stored evaluations, decides nothing, and changes no score.
"""
