"""What `trilayer.toml` may hold."""

from operator import attrgetter

import pytest

from trilayer_core.errors import SettingsError
from trilayer_core.runtime.settings import FILE, load_settings
from trilayer_server.settings import ServeSettings, complete, serve_settings

WRONG = {
    int: ('"60"', "60.0", "true", "2026-01-01"),
    float: ('"1.5"', "true", "[1]"),
    bool: ('"no"', "0", "1.0"),
    str: ("1", "true", "03:30:00", '["a"]'),
    dict[str, str]: ('"a"', "[1]"),
}
"""Values of other types than a setting's, in TOML."""

RIGHT = {int: ("600", 600), float: ("2", 2.0), bool: ("false", False), str: ('"03:31"', "03:31")}

KINDS = {
    "batch.every_s": int, "settle_s": float, "class_archive": bool, "full_at": str,
    "spark_conf": dict[str, str],
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
    assert attrgetter(name)(load_settings()) == value
    (tmp_path / FILE).write_text("")
    monkeypatch.setenv(f"TRILAYER_{name.upper().replace('.', '_')}", text.strip('"'))
    assert attrgetter(name)(load_settings()) == value


def test_old_names_of_settings_work_with_one_warning(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    (tmp_path / FILE).write_text(
        "batch_every_s = 60\nserve_port = 1\nserve_http_port = 2\n[serve]\nport = 3\n"
    )
    monkeypatch.setenv("TRILAYER_SPEED_MAX_EVENTS", "5")
    monkeypatch.setenv("TRILAYER_SERVE_HOST", "::1")
    _, settings = load_settings(), load_settings()
    assert (settings.batch.every_s, settings.speed.max_events) == (60, 5)
    assert serve_settings(settings) == ServeSettings(host="::1", port=3, http_port=2)
    (warning,) = caplog.messages
    assert "write batch.every_s in place of batch_every_s, serve.port in place of" in warning


def test_variables_of_the_server_are_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = {"VERIFY_SHARE": ".05", "TIMEOUT_S": "30.", "PORT": "05433", "WORKERS": "+4"}
    for name, text in {**texts, "HOST": "0"}.items():
        monkeypatch.setenv(f"TRILAYER_SERVE_{name}", text)
    assert serve_settings(load_settings()) == ServeSettings(
        verify_share=0.05, timeout_s=30.0, port=5433, workers=4, host="0"
    )


def test_the_stack_passes_on_all_settings_of_the_server(tmp_path, monkeypatch):
    """Otherwise a changed file would change a server that is started again."""
    monkeypatch.chdir(tmp_path)
    passed_on = complete(load_settings()).environment()
    for name, text in passed_on.items():
        monkeypatch.setenv(name, text)
    (tmp_path / FILE).write_text("[serve]\nrows = 7\nworkers = 3\n")
    assert serve_settings(load_settings()) == ServeSettings()
    monkeypatch.setenv("TRILAYER_SERVE_PORT", "x")
    with pytest.raises(SettingsError, match=r"variable TRILAYER_SERVE_PORT: .* integer"):
        complete(load_settings())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("serve.prot = 1", "'serve.prot' in trilayer.toml is not a setting; did you mean 'serve.p"),
        ("serve.port = '1'", "'serve.port' in trilayer.toml: input should be a valid integer"),
        ("serve.names = 'a'", "'serve.names' in trilayer.toml: input should be a valid array"),
        (
            "serve.host = 2020-01-01",
            "'serve.host' in trilayer.toml: input should be a valid string",
        ),
        ("batch = 5\nbatch_every_s = 60", "'batch' in trilayer.toml: input should be an object"),
        ("serve.rows = -1", "'serve.rows' in trilayer.toml: .* greater than or equal to 0; got -1"),
    ],
)
def test_a_wrong_setting_of_the_server_says_where(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / FILE).write_text(text)
    with pytest.raises(SettingsError, match=message):
        serve_settings(load_settings())
