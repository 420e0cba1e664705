"""``python -m baseload_predictors``."""

from baseload_predictors.main import main

if __name__ == "__main__":
    main()
