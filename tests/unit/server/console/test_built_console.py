"""The console's built files are those that were checked in, whole, and name no address but ours."""

import hashlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
SOURCES = ROOT / "console"
BUILT = ROOT / "trilayer_server" / "console"
SUMS = "SHA256SUMS"
NAMESPACES = {
    "http://www.w3.org/1999/xhtml",
    "http://www.w3.org/2000/svg",
}
"""Names that look like addresses; nothing is fetched from them."""

SERVED = sorted(path.name for path in BUILT.iterdir() if path.name != SUMS)


def test_checksums_hold_and_name_every_file():
    lines = (BUILT / SUMS).read_text().splitlines()
    promised = {name: digest for digest, name in (line.split("  ") for line in lines)}
    found = {name: hashlib.sha256((BUILT / name).read_bytes()).hexdigest() for name in SERVED}
    assert found == promised


@pytest.mark.parametrize("name", [name for name in SERVED if name != "LICENSES.txt"])
def test_no_file_names_a_foreign_address(name):
    text = (BUILT / name).read_text()
    addresses = set(re.findall(r"""(?:[a-z]+:)?//[a-z0-9-]+\.[^\s"'`<>)\\]*""", text))
    assert addresses <= NAMESPACES


def test_the_page_has_no_inline_script_or_style():
    page = (BUILT / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\ssrc=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son[a-z]+=", page) == []


def test_the_licence_of_each_package_in_the_bundle_is_there():
    licences = (BUILT / "LICENSES.txt").read_text()
    wanted = json.loads((SOURCES / "package.json").read_text())["dependencies"]
    missing = [name for name, version in wanted.items() if f"\n{name} {version}, " not in licences]
    assert missing == []
    assert "\nApache Arrow JavaScript\n" in licences  # what its NOTICE begins with


def test_packages_are_pinned_by_version_and_digest():
    package = json.loads((SOURCES / "package.json").read_text())
    lock = json.loads((SOURCES / "package-lock.json").read_text())["packages"]
    for name, version in {**package["dependencies"], **package["devDependencies"]}.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), name
        assert lock[f"node_modules/{name}"]["version"] == version
    for place, locked in lock.items():
        if place:
            assert locked["integrity"].startswith("sha512-"), place
            assert "resolved" not in locked, place
