"""Records of runs in the store: settings, splits, probes, the winner and the test. Nothing here runs a pipeline."""
