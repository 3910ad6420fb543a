"""Exported pipelines: YAML files with all parameters resolved, and `Pipeline`, the object loaded from such a file."""
