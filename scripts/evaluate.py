"""Evaluate a run: ``python scripts/evaluate.py --run latest --checkpoint best``; ``--help`` lists every option."""

if __name__ == "__main__":
    import sys

    from unilab.main import script_main

    sys.exit(script_main("evaluate"))
