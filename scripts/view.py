"""Show a policy or random actions: ``python scripts/view.py --run latest --video out.mp4``; ``--help`` lists it all."""

if __name__ == "__main__":
    import sys

    from unilab.main import script_main

    sys.exit(script_main("view"))
