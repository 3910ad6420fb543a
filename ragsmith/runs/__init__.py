"""A run leads from a data set and a space to a winner, and the winner to a file that can be asked and verified."""
