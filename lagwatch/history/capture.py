"""Taking what the recorder needs out of the live state, quickly: it runs between two requests."""

from collections.abc import Mapping

import numpy as np

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import Capture
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.core.window import Windows


def capture(snapshot: ClusterSnapshot, windows: Windows, rebalances: Mapping[str, int]) -> Capture:
    """The snapshot with the newest commit of each of its rows.

    Must be called where the windows are written, right after the snapshot was taken.
    """
    rows = snapshot.rows.window
    newest = windows.newest[rows]
    known = newest >= 0
    return Capture(
        snapshot=snapshot,
        committed_offset=np.where(known, windows.offset[newest, rows], UNKNOWN),
        commit_ms=np.where(known, windows.commit_ms[newest, rows], UNKNOWN),
        rebalances=dict(rebalances),
    )
