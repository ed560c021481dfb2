"""The JSON Schema of specs, and the copy of it that editors complete specs by."""
