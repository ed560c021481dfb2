"""Images in table cells (VLMEvalKit, MMBench): base64, or the index of another row."""

import base64
import binascii
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from qualm.registry.adapters import AdapterContext, AdapterError
from qualm.registry.adapters._official import check_image, read_rows
from qualm.registry.sample import Image, Sample

POINTER = 64
"""An image cell of at most so many characters is the index of the row that has the image."""


class TablePictures:
    """Reader of base64 images in a table's cells; ids are digests; each image comes once."""

    def __init__(self, path: Path, context: AdapterContext, expected: str) -> None:
        """Read the table once to note the indices that other rows give as their image."""
        self.path, self._expected, self._context, self._sent = path, expected, context, context.sent
        self._silent = replace(context, bad=lambda error: None, place=[])
        self._pictures_by_row: dict[str, str] = {}
        self.pointed_at = {row["image"] for _, row in self._rows() if len(row["image"]) <= POINTER}
        """Indices of the rows whose image other rows use."""

    def _rows(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield ("FILE: line 3", row) of the table's valid rows, in order; skip others silently."""
        return read_rows(self.path, self._expected, ("index", "image"), self._silent)

    def read(self, index: str, cell: str, where: str) -> tuple[str, Image | None]:
        """Return (image id, image or None if given before) of a cell, or the row it points to.

        Raise AdapterError for several images, bad base64 or a row without image.
        """
        if len(cell) <= POINTER:
            if self._pictures_by_row.get(cell) in self._sent:
                return self._pictures_by_row[cell], None
            return self.read(cell, *self._cell(cell, where))
        if cell[:1] == "[":
            takes = "this card takes one for each row; `image_table`, or `recorded_samples` beside predictions, take several"
            raise AdapterError(f"{where}: a list of images; {takes}")
        try:
            data = base64.b64decode(cell, validate=True)
        except (binascii.Error, ValueError) as error:
            raise AdapterError(f"{where}: image: expected base64, {error}") from error
        image_id = hashlib.sha256(data).hexdigest()[:24]
        if index in self.pointed_at:
            self._pictures_by_row[index] = image_id
        if image_id in self._sent:
            return image_id, None
        return image_id, Image(image_id, data, index)

    def select(self, sample: Sample, index: str, image: Image | None, where: str) -> Iterator[Image | Sample]:
        """Yield [image,] sample if the sample is selected, and the image of row `index` anyway if other rows point to it."""
        if image is not None and index in self.pointed_at:
            yield self.give(image, where)
        yield from self._context.selected(sample, self.give, image, where)

    def give(self, image: Image | None, where: str) -> Image:
        """Return `image` and record it as given; raise AdapterError if it is invalid."""
        assert image is not None  # None for an image that was given before
        check_image(image.data, f"{where}: image")
        self._sent[image.image_id] = ""
        return image

    def _cell(self, index: str, where: str) -> tuple[str, str]:
        """Return (image cell, "FILE: line 3") of the row with this index; else AdapterError."""
        for place, row in self._rows():
            if row["index"] == index and len(row["image"]) > POINTER:
                return row["image"], place
        raise AdapterError(f"{where}: image: points to row {index!r:.60}, which has no image")
