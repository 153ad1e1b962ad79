"""What the library and its pages quote of a proof page, a section or a theorem, is on that page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROOFS = ROOT / "docs" / "proofs"
NAMED = {"gaussian-mixture": "gaussian-mixtures", "additive-model": "additive-models"}
NAMED |= {"per-instance": "per-instance-privacy"} | {path.stem: path.stem for path in PROOFS.glob("*.md")}
KINDS = "Theorem|Lemma|Proposition|Corollary|section"
NUMBER = r"(?!The\b)[A-Z]\d*(?![\w.])|\d+(?:\.\d+)*[a-z]?(?!\w)"
PART = r"(?: \([a-z]\))?"
ONE = rf"(?:{NUMBER}){PART}"
#: "Theorems 1, 2 and 5", "section 1.5", "Theorem 4 (b)", "Theorems 3 to 5".
QUOTED = rf"(?P<kind>{KINDS})s? (?P<numbers>{ONE}(?:(?:, | and | to |, and ){ONE}(?! [a-z]+ proof))*)"
BY_NAME = re.compile(rf"(?P<page>[\w-]+) proof page(?: persons-across-tables)?(?:, (?:{QUOTED}|(?P<bare>\d+\.\d+)))")
BY_LINK = re.compile(rf"\((?:[\w./-]*proofs/)?(?P<page>[\w-]+)\.md(?:#[^)]*)?\)\)?,? \(?{QUOTED}")
TITLED = re.compile(r"(?P<page>[\w-]+) proof page, \"(?P<title>[^\"]+)\"")
ALONE = re.compile(rf"\({QUOTED}\)")


@cache
def text_of(page: str) -> str:
    return (PROOFS / f"{page}.md").read_text(encoding="utf8")


def flat(path: Path) -> str:
    """Return a file's text with its line breaks, and the signs of comments after them, as blanks."""
    return re.sub(r"\s*\n\s*(?:#:? )?", " ", path.read_text(encoding="utf8"))


def stands(page: str, kind: str, number: str) -> bool:
    """Return whether a page has a section or a statement of this number, and in it the part that is named."""
    bare, _, part = number.partition(" ")
    if kind == "section":
        found = re.search(rf"^#+ {re.escape(bare)}[. ]", text_of(page), re.MULTILINE)
    else:
        found = re.search(rf"(?:^|\s)(?:#+ |\*\*|\*){kind} {bare}\b|^\*\*{bare} \(", text_of(page), re.MULTILINE)
    if found is None or not part:
        return found is not None
    rest = text_of(page)[found.end() :]
    return part in re.split(r"\n(?:\*\*(?:Theorem|Lemma)|#)", rest)[0]


def numbers_of(text: str) -> Iterator[str]:
    for each in re.split(r", and |, | and ", text):
        first, _, last = each.partition(" to ")
        yield from map(str, range(int(first), int(last) + 1)) if first.isdigit() and last.isdigit() else [first]


def quotes(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield page, kind and number of every part of a proof page that a file names."""
    text = flat(path)
    for pattern in (BY_NAME, BY_LINK):
        for found in pattern.finditer(text):
            page = found["page"].lower()
            page = "persons-across-tables" if "persons-across-tables" in found[0] else NAMED.get(page, page)
            if pattern is BY_NAME and found["bare"]:
                yield page, "section", found["bare"]
                continue
            yield from ((page, found["kind"], number) for number in numbers_of(found["numbers"]))
    pages = {NAMED[name.lower()] for name in re.findall(r"([\w-]+) proof page", text) if name.lower() in NAMED}
    if len(pages) == 1 and path.suffix == ".py":  # "(Theorem 3)" alone is of the one page that the module names
        for found in ALONE.finditer(text):
            yield from ((*pages, found["kind"], number) for number in numbers_of(found["numbers"]))


SOURCES = [*(ROOT / "src").rglob("*.py")]
PAGES = [*(ROOT / "docs").rglob("*.md"), ROOT / "SECURITY.md", ROOT / "CHANGELOG.md", ROOT / "README.md"]


@pytest.mark.parametrize("files", [SOURCES, PAGES], ids=["modules", "pages"])
def test_sections_and_theorems_that_are_named_are_on_their_proof_page(files):
    missing, seen = [], 0
    for path in sorted(files):
        for page, kind, number in quotes(path):
            seen += 1
            if not (PROOFS / f"{page}.md").exists() or not stands(page, kind, number):
                missing.append(f"{path.relative_to(ROOT)}: {page} proof page, {kind} {number}")
        for found in TITLED.finditer(flat(path)):
            title = rf"^(?:#+ |\*\*){re.escape(found['title'])}[.\n]"
            if not re.search(title, text_of(NAMED[found["page"]]), re.MULTILINE):
                missing += [f"{path.relative_to(ROOT)}: {found['page']} proof page, {found['title']!r}"]
    assert not missing, "\n".join(missing)
    assert seen > 20
