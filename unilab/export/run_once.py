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
    obs = np.zeros((1, about["observation"]["dim"]), np.float32)  # as the env gives it: nothing is to be normalised
    action = policy.run(["action"], {"obs": obs})[0][0]  # in the env's own units, between its bounds
    sys.stdout.write(json.dumps({"action": action.tolist()}) + "\n")
