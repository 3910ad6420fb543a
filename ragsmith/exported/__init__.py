"""An exported pipeline is a YAML file with every parameter resolved, and `Pipeline` what is loaded from one.

It answers questions, is evaluated on other data sets, and is verified against the scores in its file.
"""
