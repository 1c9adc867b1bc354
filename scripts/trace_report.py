"""Say where a traced run's time went: ``python scripts/trace_report.py latest``; ``--help`` lists the options."""

if __name__ == "__main__":
    import sys

    from unilab.main import trace_report_main

    sys.exit(trace_report_main())
