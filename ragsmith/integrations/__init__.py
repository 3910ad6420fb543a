"""Integrations with other frameworks: pipelines as retrievers, documents of readers, and searches as studies.

Each module is named after the package that it requires, and is imported by the user only. `retrieval` is shared by all
retrievers.
"""
