"""Models: what techniques may ask of the world, as protocols, and the clients behind them.

A technique receives its models as arguments typed by `ragsmith.models.protocols` and never fetches one.
"""
