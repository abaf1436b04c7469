"""`python -m resus` is the command `resus`."""

from resus.cli.main import main

if __name__ == "__main__":
    main()
