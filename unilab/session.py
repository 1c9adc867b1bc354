"""One run from the command line: what it prints last and which exit code it ends with."""

from __future__ import annotations

import sys
import traceback

from unilab.config import TrainConfig
from unilab.errors import UnilabError
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
    except Exception:
        console.error(traceback.format_exc())
        return 1
