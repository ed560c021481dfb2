"""What the report stage is made of: loading, tables, charts, examples. `runners/stages/report.py` puts them on one page."""
