"""H.264 in an MP4 file, which browsers and players show without a plug-in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from unilab.draft import draft, writing
from unilab.errors import ConfigError
from unilab.view.grid import Image
from unilab.view.size import Size

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

_QUALITY = "20"  # x264's constant rate factor: 0 lossless, 23 its default, 51 worst


class Video:
    """Takes the frames of one video; see ``open_video``."""

    def __init__(self, path: Path, container: OutputContainer, size: Size, fps: Fraction) -> None:
        self._path = path
        self._container = container
        self._stream: VideoStream = container.add_stream("libx264", rate=fps, options={"crf": _QUALITY})
        self._stream.width, self._stream.height = size
        self._stream.pix_fmt = "yuv420p"  # what every player knows

    def write(self, picture: Image) -> None:
        """Append a frame; ``UnilabError`` where the file cannot be written."""
        import av

        self._encode(av.VideoFrame.from_ndarray(picture, format="rgb24"))

    def finish(self) -> None:
        """Write what the encoder holds back."""
        self._encode(None)

    def _encode(self, frame: VideoFrame | None) -> None:
        with writing(self._path):
            self._container.mux(self._stream.encode(frame))


def require_encoder() -> None:
    """Refuse early where videos cannot be written.

    Raises:
        ConfigError: says what to install.
    """
    try:
        import av  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"--video needs the package av ({error}); pip install -e '.[view]', or 'pip install av'"
        ) from error


@contextmanager
def open_video(path: Path, size: Size, fps: Fraction) -> Iterator[Video]:
    """A video to write frames to; the file is there when the block has ended without an error.

    Raises:
        UnilabError: it cannot be written.
    """
    import av

    with draft(path) as aside:
        with writing(path):
            container = av.open(str(aside), "w", format="mp4", options={"movflags": "faststart"})
        try:
            video = Video(path, container, size, fps)
            yield video
            video.finish()
        finally:
            with writing(path):
                container.close()
