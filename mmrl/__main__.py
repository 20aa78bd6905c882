"""`python -m mmrl` is the `mmrl` command."""

from mmrl.cli import main

main()
