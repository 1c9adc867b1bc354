"""Runs policy.onnx in plain MuJoCo: ``python run_policy.py [SECONDS]``; needs mujoco, numpy and onnxruntime."""

import json
import sys
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import onnxruntime


def observe(data: mujoco.MjData, parts: list[dict[str, Any]]) -> Any:
    """The observation out of MjData's fields, put together as metadata.json says; [obs_dim] float32."""
    columns = []
    for part in parts:
        field = np.ravel(getattr(data, part["field"]))
        values = field[part["start"] : part["stop"]]
        if part["minus"] is not None:
            values = values - field[part["minus"] : part["minus"] + len(values)]
        values = {"sin": np.sin, "cos": np.cos}.get(part["function"], np.array)(values)
        columns.append(np.clip(values, *(part["clip"] or (None, None))))
    return np.concatenate(columns).astype(np.float32)


if __name__ == "__main__":
    folder, seconds = Path(__file__).resolve().parent, float((sys.argv[1:] or ["10"])[0])
    about = json.loads((folder / "metadata.json").read_text())
    policy = onnxruntime.InferenceSession(folder / "policy.onnx")
    binary = about["model"]["file"].endswith(".mjb")
    load = mujoco.MjModel.from_binary_path if binary else mujoco.MjModel.from_xml_path
    data = mujoco.MjData(model := load(str(folder / about["model"]["file"])))
    data.qpos[:] = about["nominal_pose"]["qpos"]
    mujoco.mj_forward(model, data)
    for _ in range(round(seconds * about["control"]["rate_hz"])):
        obs = observe(data, about["observation"]["parts"])
        data.ctrl[:] = policy.run(["action"], {"obs": obs[None]})[0][0]
        mujoco.mj_step(model, data, about["control"]["frame_skip"])
        mujoco.mj_rnePostConstraint(model, data)  # contact forces, which some observations hold
    sys.stdout.write(json.dumps({"time_s": data.time, "qpos": data.qpos.tolist()}) + "\n")
