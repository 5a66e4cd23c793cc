"""The catalog's DuckDB file: its schema, who may write when, and what its rows say of models.

In: rows and constants. Out: queries, and the same rows for another run. Begin with `catalog.py`.
"""
