"""`python -m lagwatch.history.elastic [PREFIX]`: print the index templates as JSON, by name.

For clusters where an administrator installs them (`manage_templates = false`), and for the copy in
`deploy/elasticsearch/`.
"""

import json
import sys
from collections.abc import Sequence

from lagwatch.history.elastic.indices import templates


def main(arguments: Sequence[str]) -> int:
    """Run the command line."""
    prefix = arguments[0] if arguments else "lagwatch"
    sys.stdout.write(json.dumps(templates(prefix), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
