"""Pipelines, which have one technique of each family: search spaces, genes, and the engine that runs them."""
