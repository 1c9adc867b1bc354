"""What a trace says: ``unilab trace-report``."""
