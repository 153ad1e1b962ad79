"""The browser is one for all tests of the page."""

from page_browser import *  # noqa: F403 - fixtures
