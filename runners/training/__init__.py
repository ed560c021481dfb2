"""Code that fine-tuning recipes share: from rows of datasets to batches, losses and saved weights."""
