"""Systems: pipelines of any other software, which are evaluated by what they answered."""
