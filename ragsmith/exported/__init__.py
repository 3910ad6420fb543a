"""Exported pipelines: YAML files with every parameter resolved, and `Pipeline`, which is loaded from one."""
