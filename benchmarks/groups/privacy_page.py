"""Privacy reports: the bounds that people read, and the page they read them on."""

from __future__ import annotations

from benchmarks import privacy_page_speed
from benchmarks.target import Target

TARGETS = [
    Target("page-kilobytes-100-features", privacy_page_speed.measure, "page_kilobytes", "<=", 200),
    Target("answer-milliseconds-100-features", privacy_page_speed.measure, "answer_milliseconds", "<=", 50),
]
