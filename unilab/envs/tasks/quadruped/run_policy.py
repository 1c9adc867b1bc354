"""Walks by policy.onnx in plain MuJoCo: ``python run_policy.py [SECONDS [VX VY YAW_RATE]]``.

Needs mujoco, numpy and onnxruntime; m/s ahead and to the left, rad/s to the left.
"""

import json
import sys
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import onnxruntime


class Robot:
    """What the policy sees and does; on hardware, read IMU, encoders and servos instead of ``data``."""

    def __init__(self, model: mujoco.MjModel, about: dict[str, Any]) -> None:
        self.model, self.about = model, about
        self.data = mujoco.MjData(model)
        self.data.qpos[:] = about["nominal_pose"]["qpos"]
        self.parts = {name: np.array(value) for name, value in about["robot"].items()}
        self.data.ctrl[self.parts["ctrl"]] = self.parts["nominal"]
        mujoco.mj_forward(model, self.data)
        self.action = np.zeros(len(self.parts["ctrl"]))
        self.past: list[Any] = []

    def observe(self, command: Any) -> Any:
        """[obs_dim] float32: the present frame, the command (vx, vy, yaw rate), the frames before, newest first."""
        data, parts = self.data, self.parts
        imu = [data.sensordata[parts["gyro"]], -data.sensordata[parts["up"]]]
        joints = [data.qpos[parts["qpos"]] - parts["nominal"], data.qvel[parts["qvel"]]]
        frame = np.concatenate([*imu, *joints, self.action])
        past = self.past or [frame] * int(parts["history"])
        self.past = [frame, *past][: len(past)]
        return np.concatenate([frame, command, *past]).astype(np.float32)

    def act(self, action: Any) -> None:
        """Servo targets around the nominal pose, for one control step."""
        self.action, parts = action, self.parts
        target = parts["nominal"] + action * parts["reach"]
        self.data.ctrl[parts["ctrl"]] = np.clip(target, parts["low"], parts["high"])
        mujoco.mj_step(self.model, self.data, self.about["control"]["frame_skip"])


if __name__ == "__main__":
    folder, words = Path(__file__).resolve().parent, [float(word) for word in sys.argv[1:]]
    seconds, command = (words or [10.0])[0], (words[1:] or [0.5, 0.0, 0.0])
    about = json.loads((folder / "metadata.json").read_text())
    policy = onnxruntime.InferenceSession(folder / "policy.onnx")
    robot = Robot(mujoco.MjModel.from_binary_path(str(folder / about["model"]["file"])), about)
    measured = []
    for _ in range(round(seconds * about["control"]["rate_hz"])):
        robot.act(policy.run(["action"], {"obs": robot.observe(command)[None]})[0][0])
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, robot.data.qpos[3:7])
        ahead_left_up = rotation.reshape(3, 3).T @ robot.data.qvel[:3]
        measured.append([*ahead_left_up[:2], robot.data.qvel[5]])
    mean = np.mean(measured[len(measured) // 2 :], axis=0).round(3).tolist()
    said = {"command": command, "mean_of_second_half": mean, "qpos": robot.data.qpos.tolist()}
    sys.stdout.write(json.dumps(said) + "\n")
