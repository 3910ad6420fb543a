"""An assessment runs exported pipelines on questions: it scores one, compares two, or gates continuous integration."""
