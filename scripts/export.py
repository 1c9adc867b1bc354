"""Export a policy: ``python scripts/export.py --run latest --out policy.zip``; ``--help`` lists every option."""

if __name__ == "__main__":
    import sys

    from unilab.main import script_main

    sys.exit(script_main("export"))
