"""What the report stage is made of: loading, tables, charts, examples. `runners/report.py` puts them on one page."""
