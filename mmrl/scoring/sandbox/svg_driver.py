"""Renders picture.svg of the current folder to picture.png, inside the sandbox.

python svg_driver.py WIDTH
"""

import sys
from pathlib import Path

import resvg_py

svg = Path("picture.svg").read_text(encoding="utf-8")
try:
    png = resvg_py.svg_to_bytes(svg_string=svg, width=int(sys.argv[1]), skip_system_fonts=True)
except ValueError as error:
    sys.exit(f"no SVG that can be rendered: {error}")
Path("picture.png").write_bytes(bytes(png))
