"""Train a policy: ``python scripts/train.py --algo sac``; ``--help`` lists every option."""

if __name__ == "__main__":
    # Only here: spawned workers import this file again, before their thread count is set.
    import sys

    from unilab.main import script_main

    sys.exit(script_main("train"))
