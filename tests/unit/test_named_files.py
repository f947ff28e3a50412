"""Files that options name."""

import os
from pathlib import Path

import pytest

from lagwatch.named_files import require_file


def test_files_and_the_null_device_may_be_read(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("text")
    link.symlink_to(file)

    for path in (file, link, Path(os.devnull)):
        require_file(path)


@pytest.mark.parametrize("what", ["pipe", "device", "folder", "nothing"])
def test_what_may_never_end_is_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / "link"
    match what:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()

    with pytest.raises(OSError, match=r"pipe or device|directory") as refused:
        require_file(path)

    assert refused.value.strerror
