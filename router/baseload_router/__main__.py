"""``python -m baseload_router``."""

import sys

from baseload_router.main import main

if __name__ == "__main__":
    sys.exit(main())
