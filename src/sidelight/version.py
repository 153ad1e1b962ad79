"""The version of the library, as it is written into every release."""

VERSION = "0.6.0"
