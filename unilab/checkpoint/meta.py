"""``meta.json``: what a checkpoint holds, with the checksum of every file, its own included."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unilab.errors import ConfigError

SCHEMA = 4
STATE, META = "state.pt", "meta.json"


def encode_meta(meta: Mapping[str, Any]) -> bytes:
    """JSON with one more key, ``sha256``: of these bytes with the digest taken out.

    Raises:
        TypeError, ValueError: something in it has no place in JSON.
    """
    bare = json.dumps({**meta, "sha256": ""}, indent=2, allow_nan=False) + "\n"
    digest = hashlib.sha256(bare.encode()).hexdigest()
    return bare.replace('"sha256": ""', f'"sha256": "{digest}"').encode()


def read_meta(path: Path) -> dict[str, Any]:
    """What ``meta.json`` of a checkpoint directory says.

    Raises:
        ConfigError: names the file and what is wrong with it.
    """
    file = path / META
    try:
        text = file.read_bytes().decode()
        meta = json.loads(text)
        schema, digest = meta["schema"], meta.get("sha256", "")
    except OSError as error:
        raise spoilt(file, error.strerror or str(error)) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise spoilt(file, "it is not what was saved") from error
    if schema != SCHEMA:
        raise ConfigError(
            f"{path} is a checkpoint of another version of unilab (schema {schema}; this one reads schema {SCHEMA}): "
            "it cannot be continued or loaded here"
        )
    if not digest or hashlib.sha256(text.replace(digest, "").encode()).hexdigest() != digest:
        raise spoilt(file, "its checksum differs from what was saved")
    return dict(meta)


def spoilt(file: Path, reason: str) -> ConfigError:
    """The error for a file of a checkpoint that cannot be used, in one line."""
    return ConfigError(f"{file} is not a readable part of a checkpoint: {one_line(reason)}")


def one_line(text: str) -> str:
    """The first line of a message that may have many, as torch's have."""
    return (text.strip() or "no reason given").splitlines()[0]
