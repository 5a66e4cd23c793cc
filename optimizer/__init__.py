"""Which plan: search over substitutions, materialization, measurement and explanation."""
