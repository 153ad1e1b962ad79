"""The API reference: every public name stands on one page of it, and every docstring says what a user needs."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import sidelight as sl

DOCS = Path(__file__).parents[1] / "docs"


def _api_pages() -> Any:
    spec = importlib.util.spec_from_file_location("sidelight_api_pages", DOCS / "api_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


api_pages = _api_pages()


def test_every_public_name_stands_on_one_page(tmp_path: Path) -> None:
    api_pages.write(tmp_path)
    text = "\n".join(path.read_text(encoding="utf-8") for path in tmp_path.iterdir())
    for name in set(sl.__all__) - {"__version__"}:
        assert text.count(f":: sidelight.{name}\n") == 1, name


def test_a_public_name_without_a_page_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sl, "__all__", [*sl.__all__, "Forgotten"])
    with pytest.raises(ValueError, match="see to Forgotten"):
        api_pages.pages()


def test_a_page_with_a_name_that_is_not_public_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_pages, "PAGES", {**api_pages.PAGES, "More": ("Quantiles", "Lost")})
    with pytest.raises(ValueError, match="see to Lost, Quantiles"):
        api_pages.pages()


def test_plain_docstrings_become_restructured_text() -> None:
    lines = ["Guarantee: with |x| and", "`a*b` as `sl.PCA`.", "", "    Accuracy: good.", "", ">>> 2 * 3", "6 * 1"]
    api_pages.as_restructured_text(lines)
    assert lines == [
        *(
            "Guarantee:",
            "    With \\|x\\| and",
            "    `a*b` as `sl.PCA <sidelight.PCA>`.",
            "",
            "    Accuracy:",
            "        Good.",
            "",
        ),
        *(">>> 2 * 3", "6 * 1"),
    ]


def test_long_types_have_their_names() -> None:
    amount, array = (
        "str | int | float | ~decimal.Decimal | ~fractions.Fraction",
        "ndarray[tuple[Any, ...], dtype[float64]]",
    )
    assert api_pages.named_types(f"(a: {amount} | None) -> {array}") == "(a: Amount | None) -> NDArray[float64]"


#: What a sentence about a public name begins with: what is returned or done. A new verb is added on purpose.
VERBS = {
    *(
        "Ask",
        "Charge",
        "Check",
        "Count",
        "Declare",
        "Describe",
        "Draw",
        "Encode",
        "Fill",
        "Fit",
        "Hold",
        "Label",
        "Learn",
        "Leave",
    ),
    *("Mix", "Name", "Open", "Predict", "Promise", "Read", "Refuse", "Release", "Return", "Scale", "Score", "Train"),
    *("Try", "Warn", "Write"),
}

PUBLIC = [
    pytest.param(name, getattr(package, name), id=name)
    for package in (sl, sl.priors)
    for name in package.__all__
    if callable(getattr(package, name)) and (package is sl or name not in sl.__all__)
]


def _sections(made: Any) -> dict[str, str]:
    """Return the text of a docstring under each of its headings; "" is what stands before them."""
    found, word = {"": ""}, ""
    for line in inspect.cleandoc(made.__doc__ or "").split("\n"):
        heading = re.match(r"(Args|Returns|Raises|Guarantee|Accuracy):( |$)", line)
        if heading:
            word = heading[1]
        elif line and not line.startswith(" ") and word in ("Args", "Returns", "Raises"):
            word = ""
        found[word] = found.get(word, "") + line + "\n"
    return found


def _told(made: Any) -> list[str]:
    """Return the arguments that a docstring has an entry for; one entry may be for several."""
    entries = re.findall(r"^    (\w[\w, ]*):", _sections(made).get("Args", ""), re.MULTILINE)
    return [name for entry in entries for name in entry.split(", ")]


def _first_word(made: Any) -> str:
    return ((made.__doc__ or "").split() or [""])[0].rstrip(",:")


def _arguments(made: Any) -> list[str]:
    signature = inspect.signature(made.__init__ if inspect.isclass(made) else made)
    return [name for name in signature.parameters if name not in ("self", "cls", "_")]


def _plain(made: Any) -> bool:
    """Return whether a class takes no arguments of its own that could be described: an enumeration or an error."""
    return inspect.isclass(made) and issubclass(made, Enum | BaseException)


@pytest.mark.parametrize(("name", "made"), PUBLIC)
def test_a_public_name_says_what_a_user_needs(name: str, made: Any) -> None:
    sections = _sections(made)
    assert _first_word(made) in VERBS, "its first sentence begins with what is returned or done"
    if not _plain(made):
        assert sorted(_told(made)) == sorted(_arguments(made)), "Args: has an entry for every argument and no other"
    if not inspect.isclass(made):
        assert "Returns" in sections
    if hasattr(made, "release") or hasattr(made, "fit"):
        assert "Guarantee" in sections
    if not (inspect.isclass(made) and issubclass(made, BaseException)):
        assert ">>> " in (made.__doc__ or ""), "it has an example that runs"


@pytest.mark.parametrize(("name", "made"), [each for each in PUBLIC if inspect.isclass(each.values[1])])
def test_a_method_says_what_a_user_needs(name: str, made: type) -> None:
    """One argument is described in the sentence, several have entries; "Return ..." describes the result.

    As in scikit-learn, the `y` of `fit(X, y=None)` is ignored, and a fit returns the model itself.
    """
    wrong = []
    for method in api_pages.methods(made):
        found = inspect.getattr_static(made, method)
        if isinstance(found, property):
            if not inspect.getdoc(found):
                wrong.append(f"{method}: no docstring")
            continue
        function = found.__func__ if isinstance(found, classmethod | staticmethod) else found
        sections, arguments = _sections(function), _arguments(function)
        first = _first_word(function)
        returned = inspect.signature(function).return_annotation
        if first not in VERBS:
            wrong.append(f"{method}: begins with {first!r}")
        told = _told(function)
        arguments = [name for name in arguments if name != "y" or name in told or len(arguments) > 2]  # fit(X, y=None)
        if (len(arguments) > 1 or told) and sorted(told) != sorted(arguments):
            wrong.append(f"{method}: Args: has {told}, its arguments are {arguments}")
        if returned not in (None, "None", "Self") and first not in ("Return", "Release") and "Returns" not in sections:
            wrong.append(f"{method}: no Returns:")
    assert not wrong
