"""A record is what the store keeps of a run beside its results: settings, splits, probes, the winner, what was tested.

This room writes records and reads them back; it runs no pipeline.
"""
