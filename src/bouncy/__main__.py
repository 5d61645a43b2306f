"""`python -m bouncy`: the command line, where the script `bouncy` is not on the path."""

from __future__ import annotations

from bouncy.cli.main import main

if __name__ == "__main__":
    main()
