"""Build the documentation site, or what belongs to it.

    python -m documentation                        the site, into site/
    python -m documentation --versions main v1.0   one site per tag or branch, the first is the newest
    python -m documentation --screenshots FOLDER   also pictures of the main pages, for a person to look at
    python -m documentation --write                docs/command-line.md from the parser, and the golden help
    python -m documentation --serve                the site on http://localhost:8000

Needs `pip install -e ".[docs]"`.
"""

from __future__ import annotations

import argparse
import functools
import http.server
from pathlib import Path

from documentation import build, commands, screenshots
from documentation.stage import ROOT


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--site", type=Path, default=ROOT / "site", help="folder; default: site/")
    parser.add_argument("--versions", nargs="+", metavar="VERSION")
    parser.add_argument("--screenshots", type=Path, metavar="FOLDER")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    if options.write:
        commands.write()
        return
    if options.versions:
        print(build.build_versions(options.site, options.versions))
        return
    print(build.build(options.site))
    if options.screenshots:
        print(*screenshots.take(options.site, options.screenshots), sep="\n")
    if options.serve:
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(options.site))
        http.server.ThreadingHTTPServer(("localhost", 8000), handler).serve_forever()


if __name__ == "__main__":
    main()
