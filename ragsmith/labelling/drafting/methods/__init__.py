"""A drafting method says what a chat model is asked about a passage, and which passages it suits: one file a method."""
