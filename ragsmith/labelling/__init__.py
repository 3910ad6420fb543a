"""Labelled questions: drafted from documents by a chat model, reviewed by a person, and checked before use."""
