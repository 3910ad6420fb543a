"""A protocol is how a published study decides which differences it claims: measures, tests and rules in one file."""
