"""What exists: models, operators, costs and rules as tables, and Datalog over them."""
