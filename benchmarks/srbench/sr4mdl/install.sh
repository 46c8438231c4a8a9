#!/usr/bin/env bash
# Installs sr4mdl into the environment that SRBench has made for it.
set -euo pipefail
python -m pip install sr4mdl
