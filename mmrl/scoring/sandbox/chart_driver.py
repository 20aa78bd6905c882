"""Runs chart.py of the current folder inside the sandbox and saves its last figure as chart.png.

python chart_driver.py DPI
"""

import runpy
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

plt.show = plt.close = lambda *_, **__: None
runpy.run_path("chart.py", run_name="__main__")
if not plt.get_fignums():
    sys.exit("no figure was drawn")
plt.figure(plt.get_fignums()[-1]).savefig("chart.png", dpi=int(sys.argv[1]))
