"""The command line: one file for each command, and `main.py` for errors and signals.

To add a command, add a file here with a click command called `command`; its name is that of the file. It should
import slow modules inside its functions, so that `bouncy --help` stays quick. `_parameters.py` has the types and the
options that commands share, `_output.py` prints results and checks the places of files, `_runs.py` loads, saves and
shows runs.
"""
