"""``unilab view``: what a policy, or chance, does in an env, as an MP4 or a PNG, without a display."""
