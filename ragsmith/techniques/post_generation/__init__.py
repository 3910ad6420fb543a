"""Post-generation techniques check or improve the draft answer before it is delivered.

What they return is what is scored.
"""
