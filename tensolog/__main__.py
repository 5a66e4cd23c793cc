"""`python -m tensolog` is the `tensolog` command."""

from .cli import main

main()
