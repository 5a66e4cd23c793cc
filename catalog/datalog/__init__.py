"""Datalog in Soufflé's dialect, compiled to DuckDB SQL."""
