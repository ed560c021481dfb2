"""Parts of the report: loading, tables, charts, examples. `runners/stages/report.py` puts them on one page."""
