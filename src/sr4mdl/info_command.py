"""``sr4mdl info``: versions, devices and the network, for reports of faults."""

import json
import os
import platform
import sys
from argparse import ArgumentParser, Namespace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from sr4mdl import __version__

_PACKAGES: Final = (
    "numpy", "scipy", "sympy", "scikit-learn", "numba", "onnxruntime", "rich",
    "pandas", "polars", "pyarrow", "torch",
)  # fmt: skip


def configure(parser: ArgumentParser) -> None:
    """Set up ``sr4mdl info``."""
    parser.add_argument(
        "--network",
        metavar="FILE",
        type=Path,
        help="the .onnx file to tell of (default: the one in the package)",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Print what is there; return the exit code."""
    facts = gather(arguments.network)
    if arguments.json:
        sys.stdout.write(json.dumps(facts) + "\n")
        return 0
    network = facts["network"]
    lines = [
        f"sr4mdl {facts['sr4mdl']}",
        f"python {facts['python']} on {facts['platform']}",
        *(f"device {device}" for device in facts["devices"]),
        f"network {network['file']}",
        f"network {network['architecture']}, {network['megabytes']} MB, trained on "
        f"{network['samples']:,} states, sha256 {network['sha256'][:12]}",
        *(f"{name} {found}" for name, found in facts["packages"].items()),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def gather(network: Path | None) -> dict[str, Any]:
    """Return versions, devices and facts of a network as plain values.

    Parameters
    ----------
    network : Path or None
        Its ``.onnx`` file; None for the one in the package.
    """
    from sr4mdl.mdlformer.card import read_card
    from sr4mdl.mdlformer.guide import DEFAULT_PATH

    path = DEFAULT_PATH if network is None else network
    card = read_card(path.with_suffix(".json"), "onnx")
    (file,) = card["files"]
    return {
        "sr4mdl": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "devices": _devices(),
        "network": {
            "file": str(path),
            "architecture": card["config"]["architecture"],
            "samples": card["samples"],
            "megabytes": round(file["bytes"] / 1e6, 1),
            "sha256": file["sha256"],
        },
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def _devices() -> list[str]:
    found = [f"cpu, {os.cpu_count()} cores"]
    if find_spec("torch") is not None:
        import torch

        found += [
            f"cuda:{place}, {torch.cuda.get_device_name(place)}"
            for place in range(torch.cuda.device_count())
        ]
    return found


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
