"""Locate quotations and answers in documents; ambiguous and missing ones are reported with candidates."""
