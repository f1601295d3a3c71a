"""What papers and public data show, made again by one command: `python -m reproductions --data PATH`."""
