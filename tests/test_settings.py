"""Where settings come from, and what is said about wrong ones."""

import os
import re
import runpy
from pathlib import Path

import pytest
from stenod import settings
from stenod.settings import Settings, SettingsError, load

from .recordings import PROJECT

EXAMPLE = PROJECT / "configs" / "stenod.toml"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of this machine."""
    for name in [name for name in os.environ if name.startswith("STENOD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(settings, "USER_FILE", tmp_path / "user.toml")
    monkeypatch.setattr(settings, "SYSTEM_FILE", tmp_path / "system.toml")


def test_defaults():
    chosen = load({})
    assert (chosen.server.host, chosen.server.port) == ("127.0.0.1", 8790)
    assert chosen.engine.model == "whisper-base"
    assert (chosen.segmentation.silence_ms, chosen.segmentation.max_utterance_s) == (1000, 25.0)
    assert chosen.session.step_ms == 400


def test_each_source_goes_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sources = {"system.toml": 1, "user.toml": 2, "given.toml": 3}
    seen = []
    for name, port in sources.items():
        (tmp_path / name).write_text(f"[server]\nport = {port}\n")
        seen.append(load({}, tmp_path / "given.toml" if name == "given.toml" else None).server.port)
    monkeypatch.setenv("STENOD_SERVER__PORT", "4")
    seen.append(load({}, tmp_path / "given.toml").server.port)
    seen.append(load({"server": {"port": "5"}}, tmp_path / "given.toml").server.port)
    assert seen == [1, 2, 3, 4, 5]


def test_sources_complete_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "user.toml").write_text("[server]\nidle_s = 7.0\n[engine]\nthreads = 3\n")
    monkeypatch.setenv("STENOD_ENGINE__MODEL", "whisper-tiny")
    chosen = load({"server": {"port": "1"}})
    assert (chosen.server.port, chosen.server.idle_s) == (1, 7.0)
    assert (chosen.engine.model, chosen.engine.threads) == ("whisper-tiny", 3)


def test_all_faults_are_told_at_once_each_with_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """field-failures: settings are validated at start, all errors at once, each naming its key."""
    monkeypatch.setenv("STENOD_ENGINES__THREADS", "1")
    with pytest.raises(SettingsError, match=r"^STENOD_ENGINES__THREADS: there is no such setting$"):
        load({})
    (tmp_path / "user.toml").write_text("surprise = 1\n[session]\ntask = 'sing'\n")
    monkeypatch.setenv("STENOD_AUDIO__CHANNELS", "many")
    with pytest.raises(SettingsError) as refused:
        load({"server": {"port": "70000"}})
    faults = str(refused.value).splitlines()
    assert sorted(fault.partition(":")[0] for fault in faults) == [
        "STENOD_ENGINES__THREADS",
        "audio.channels",
        "server.port",
        "session.task",
        "surprise",
    ]


def test_a_file_that_is_no_toml_is_named(tmp_path: Path):
    (tmp_path / "user.toml").write_text("server = [")
    with pytest.raises(SettingsError, match=r"user\.toml"):
        load({})


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(SettingsError, match=r"none\.toml: no such settings file"):
        load({}, tmp_path / "none.toml")


def test_the_example_file_holds_the_defaults():
    assert load({}, EXAMPLE).model_dump() == load({}).model_dump()


def test_the_example_file_is_as_its_tool_writes_it():
    tool = runpy.run_path(str(PROJECT / "tools" / "example_settings.py"))
    assert EXAMPLE.read_text() == tool["example"]()


def test_every_setting_is_described_in_the_example_file():
    text = EXAMPLE.read_text()
    for section, field in Settings.model_fields.items():
        assert field.annotation is not None
        for key, setting in field.annotation.model_fields.items():
            assert setting.description, f"{section}.{key}"
            assert re.search(rf"^(# )?{key} = ", text, re.MULTILINE)
