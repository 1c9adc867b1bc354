"""Which ``unilab`` this is: another project publishes a package of that name, and two checkouts are soon mixed up."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlparse

import unilab
from unilab.checks.finding import Finding, ok, warn

OURS, FOREIGN = "unilab-offpolicy", "unilab"


def package_finding() -> Finding:
    """Whether a foreign distribution owns the same module, and whether ours comes from where it is installed."""
    here = Path(unilab.__file__).resolve().parent
    if (foreign := _distribution(FOREIGN)) is not None:
        return warn(
            "package",
            f"the distribution {FOREIGN} {foreign.version} is installed beside {OURS}; both own the module unilab, "
            f"which is now imported from {here}",
            f"pip uninstall {FOREIGN}, then install {OURS} again, or use a virtual environment of its own",
        )
    ours = _distribution(OURS)
    if ours is None:
        return ok("package", f"unilab {unilab.__version__} from {here}, not installed")
    expected = _module_of(ours)
    if expected.resolve() != here:
        return warn(
            "package",
            f"unilab is imported from {here}, but {OURS} {ours.version} is installed from {expected.parent}",
            "pip install -e . in the checkout that you mean",
        )
    return ok("package", f"{OURS} {ours.version} from {here}")


def _distribution(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def _module_of(distribution: metadata.Distribution) -> Path:
    """Where the module lies that a distribution installed: its checkout where it is editable."""
    about = json.loads(distribution.read_text("direct_url.json") or "{}")
    if about.get("dir_info", {}).get("editable"):
        return Path(unquote(urlparse(about["url"]).path)) / "unilab"
    return Path(str(distribution.locate_file("unilab")))
