"""What `trilayer status` says of a query of alerts whose batches don't end any more."""

import pytest

from trilayer.operations.status import stalled
from trilayer_core.store.alerts import AlertState

AT = 1_790_000_000_000


@pytest.mark.parametrize(
    ("started", "now", "is_stalled"),
    [
        (0, 600, False),
        (0, 1_260, False),
        (0, 1_261, True),
        (1_000, 1_261, False),  # it was started again meanwhile, and has time for a batch
        (1_000, 2_261, True),
    ],
)
def test_a_batch_that_does_not_end_is_told(started, now, is_stalled):
    state = AlertState(1, {0: 5}, 3, AT)
    said = stalled(state, AT + started * 1000, AT + now * 1000, boundary_s=600)
    assert bool(said) is is_stalled
    if is_stalled:
        assert "since 2026-09-21T14:13:20Z" in said
        assert "600 s" in said
