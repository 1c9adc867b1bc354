"""Asks policy.onnx for one action: ``python run_policy.py``; needs numpy and onnxruntime, put your observation in."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

if __name__ == "__main__":
    folder = Path(__file__).resolve().parent
    about = json.loads((folder / "metadata.json").read_text())
    policy = onnxruntime.InferenceSession(folder / "policy.onnx")
    parts = [part for part in (about["observation"], about["privileged"]) if part]
    # As the env gives them: nothing is to be normalised.
    inputs = {part["name"]: np.zeros((1, part["dim"]), np.float32) for part in parts}
    action = policy.run(["action"], inputs)[0][0]  # in the env's own units, between its bounds
    sys.stdout.write(json.dumps({"action": action.tolist()}) + "\n")
