"""Diagnoses: why a question failed in a pipeline, and what each option of a pipeline contributes.

Diagnoses are computed from traces and stored evaluations; they influence no decision and no score.
"""
