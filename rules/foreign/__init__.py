"""Substitutions of other systems, read into the rule language."""
