"""Evaluation turns pipelines and questions into scores: records, measures, fitness, fitted numbers and statistics."""
