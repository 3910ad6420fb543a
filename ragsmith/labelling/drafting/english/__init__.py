"""English syntax as far as function words and endings show it: enough to turn a plain statement into a question."""
