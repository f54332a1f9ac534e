"""`python -m penstock` is the command."""

from penstock.cli.entry import main

if __name__ == "__main__":
    main()
