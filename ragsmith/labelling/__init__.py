"""Labelled questions are made here: drafted from documents, looked at by a person, and checked before they are used."""
