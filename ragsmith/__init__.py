"""Genetic architecture search for Retrieval-Augmented Generation pipelines."""

__version__ = "0.1.0"
