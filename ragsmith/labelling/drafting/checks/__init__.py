"""A check asks the model about a draft that passed the filters: its prompt, its parser, and what its reply means."""
