"""All tests of the page open it in the same way."""

from page_browser import *  # noqa: F403 - fixtures
