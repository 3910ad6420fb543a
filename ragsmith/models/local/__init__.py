"""Local models: networks that run in this process through sentence-transformers."""
