"""``unilab/QuadrupedVelocity-v0``: a four-legged robot follows velocity commands, shaped for a transfer to hardware.

task        the order of a step, and every option
robot       a robot from its YAML file
scene       robot, ground and sensors as one model
ground      flat or hills
measure     what the robot measures and what only the critics see
commands    velocities to follow, and their curriculum
rewards     terms and weights
mirror      the left/right mirror map
variation   pushes, and robots that differ from one another
draws       random numbers of all envs at once
"""
