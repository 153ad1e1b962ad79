"""The files of the how-to page are files that a server takes."""

from __future__ import annotations

import re
from pathlib import Path

from analyst_server import write_people
from sidelight.server.config_file import read_config

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "serve-analysts.md"


def test_the_files_of_the_page_are_taken(tmp_path):
    whole, divided, renewed, proxied = re.findall(
        r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL
    )
    write_people(tmp_path)
    (tmp_path / "proxy.secret").write_text("0" * 32)
    file = tmp_path / "survey.toml"
    file.write_text(whole)
    assert [each.name for each in read_config(file).tables["people"].accounts] == ["ada", "bob", "institute"]
    below = whole.replace('name = "people"\n', 'name = "people"\npopulation = "visitors"\n')
    file.write_text(below.replace("[[table]]", f"{divided}[[table]]"))
    assert read_config(file).populations["visitors"].partitioned_by == "month of the first visit"
    ada = '{name = "ada", budget = {epsilon = 1}},'
    file.write_text(re.sub(r"analyst = \[.*\]\n", renewed.replace("[\n", f"[\n  {ada}\n"), whole))
    (_, bob, _) = read_config(file).tables["people"].accounts
    assert bob.renew is not None
    assert (bob.renew.every, bob.renew.windows) == ("month", 10)
    file.write_text(re.sub(r"\[identity\]\n.*\n.*\n", proxied, whole))
    proxy = read_config(file).proxy
    assert proxy is not None
    assert proxy.names == {"ada@example.org": "ada"}
