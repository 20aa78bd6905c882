"""Running a command on what a model wrote: limited in time, memory and output, without network or files of the machine.

>>> from mmrl.scoring.sandbox import Job, python_command, run
>>> result = run(Job(python_command("print(6 * 7)")))
>>> result.exit_code, result.stdout, result.killed_by
(0, b'42\\n', None)
"""

from mmrl.scoring.sandbox.job import Job, KilledBy, Limits, Result, Tree
from mmrl.scoring.sandbox.python_runtime import package_trees, python_command, python_trees
from mmrl.scoring.sandbox.runner import run
from mmrl.scoring.sandbox.walls import Isolation, isolation, require_isolation

__all__ = [
    "Isolation",
    "Job",
    "KilledBy",
    "Limits",
    "Result",
    "Tree",
    "isolation",
    "package_trees",
    "python_command",
    "python_trees",
    "require_isolation",
    "run",
]
