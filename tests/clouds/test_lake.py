"""The data plane's lake on the emulators of clouds."""

from __future__ import annotations

from tests.s3.test_lake import (  # noqa: F401  # the suite: its tests run here on the lake that `uri` names
    lake,
    test_a_file_that_was_not_written_is_not_there,
    test_a_footer_that_is_larger_than_what_is_read_at_first,
    test_a_manifest_is_put_once,
    test_deleting_what_is_there_and_what_is_not,
    test_files_are_listed_measured_and_read,
    test_sizes_are_asked_for_as_far_as_they_matter,
)
