"""``python -m justitia``: the command ``justitia``."""

from justitia.cli.main import main

if __name__ == "__main__":
    main()
