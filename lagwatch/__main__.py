"""`python -m lagwatch` is the `lagwatch` command."""

from lagwatch.cli import main

if __name__ == "__main__":
    main()
