"""One run from the command line: what it prints last and which exit code it ends with."""

from __future__ import annotations

import sys
import traceback

from unilab.config import TrainConfig
from unilab.errors import UnilabError, machine_trouble
from unilab.resume import Resume
from unilab.telemetry.console import Console
from unilab.train import train


def run(cfg: TrainConfig, resume: Resume | None = None) -> int:
    """Train; the last thing on the console is the outcome or the cause of the failure.

    Returns:
        0 done, 1 failure, 2 refused before anything started, 70 a worker died, 130/143 interrupted and saved.
    """
    console = Console(sys.stdout)
    try:
        return train(cfg, resume).exit_code
    except UnilabError as error:
        console.error(str(error))
        return error.exit_code
    except OSError as error:
        console.error(machine_trouble(error) or traceback.format_exc())
        return 1
    except Exception:
        console.error(traceback.format_exc())
        return 1
    except SystemExit as error:  # of an env that is stepped in this process; its exit code is not ours
        console.error(f"sys.exit({error.code!r}) was called by the env or a library\n{traceback.format_exc()}")
        return 1
