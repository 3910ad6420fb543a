"""Search spaces, the genes of candidates, and the engine that runs pipelines."""
