"""JSON Schema of specs, and the copy that editors use."""
