"""Train several seeds: ``python scripts/sweep.py --seeds 5 --algo sac``; further options are those of training."""

if __name__ == "__main__":
    import sys

    from unilab.main import script_main

    sys.exit(script_main("sweep"))
