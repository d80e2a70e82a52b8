"""What `trilayer.toml` may hold."""

import pytest

from trilayer_core.errors import SettingsError
from trilayer_core.runtime.settings import FILE, load_settings

WRONG = {
    int: ('"60"', "60.0", "true", "2026-01-01"),
    float: ('"1.5"', "true", "[1]"),
    bool: ('"no"', "0", "1.0"),
    str: ("1", "true", "03:30:00", '["a"]'),
    list[str]: ('"a"', "[1]"),
    dict[str, str]: ('"a"', "[1]"),
}
"""Values of other types than a setting's, in TOML."""

RIGHT = {int: ("600", 600), float: ("2", 2.0), bool: ("false", False), str: ('"03:31"', "03:31")}

KINDS = {
    "batch_every_s": int, "settle_s": float, "class_archive": bool, "full_at": str,
    "serve_names": list[str], "spark_conf": dict[str, str],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, kind in KINDS.items() for text in WRONG[kind]]
)
def test_a_value_of_another_type_is_named(name, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / FILE).write_text(f"{name} = {text}\n")
    with pytest.raises(SettingsError, match=rf"'{name}' in trilayer\.toml: input should be a"):
        load_settings()


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind in RIGHT])
def test_a_value_of_the_type_is_taken_from_the_file_and_as_text_from_a_variable(
    name, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    text, value = RIGHT[KINDS[name]]
    (tmp_path / FILE).write_text(f"{name} = {text}\n")
    assert getattr(load_settings(), name) == value
    (tmp_path / FILE).write_text("")
    monkeypatch.setenv(f"TRILAYER_{name.upper()}", text.strip('"'))
    assert getattr(load_settings(), name) == value
