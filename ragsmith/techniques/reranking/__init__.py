"""Rerankers read the question beside each candidate and put the candidates in a new order.

A reranker's score replaces the score of the first stage, with its scale, and everything after it goes by that score.
"""
