"""Importing the package costs nothing, in workers above all."""

import subprocess
import sys

_LOOK = "import sys; sys.exit(sorted({'torch', 'gymnasium', 'numpy', 'unilab.api'} & sys.modules.keys()) or None)"


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_importing_the_package_and_its_entry_imports_nothing_large():
    done = run(f"import unilab, unilab.main, unilab.output; from unilab import errors; {_LOOK}")

    assert done.returncode == 0, done.stderr
