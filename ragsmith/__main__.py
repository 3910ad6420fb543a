"""``python -m ragsmith``."""

from ragsmith.cli import main

if __name__ == "__main__":
    main()
