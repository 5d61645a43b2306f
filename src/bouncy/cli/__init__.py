"""The command line: one file for each command.

To add a command, add a file here with a click command called `command`; its name is that of the file. It should
import what is slow to import inside its functions, so that `bouncy --help` stays quick. `_options.py` has the options
that commands share, `_places.py` checks where files go before anything is computed, `_signals.py` says how a command
ends that is told to.
"""
