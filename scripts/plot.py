"""Draw learning curves: ``python scripts/plot.py RUN ... --out curves.png``; ``--help`` lists every option."""

if __name__ == "__main__":
    import sys

    from unilab.main import script_main

    sys.exit(script_main("plot"))
