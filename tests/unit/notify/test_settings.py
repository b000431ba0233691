"""The settings of notifications: whose file is read, and what is refused in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from adjourn.errors import AdjournError
from adjourn.notify.senders import key_of, name_of, read_settings

SECRET = "whsec_" + "a" * 32


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "config"
    folder.mkdir()
    monkeypatch.setenv("ADJOURN_CONFIG", str(folder))
    return folder


def written(config: Path, text: str, mode: int = 0o600) -> None:
    file = config / "notify.toml"
    file.write_text(text)
    file.chmod(mode)


def test_the_targets_are_read(config: Path, tmp_path: Path) -> None:
    """Commands, webhooks and the desktop are targets, each with a key of its own and a name that shows no address."""
    written(
        config,
        f'kinds = ["approval"]\ndesktop = true\n[[command]]\nrun = ["/usr/bin/say", "{{text}}"]\n'
        f'[[webhook]]\nurl = "https://hooks.example.com/T0/secret"\nsecret = "{SECRET}"\n',
    )
    found = read_settings(str(tmp_path / "work"))
    assert found.kinds == ["approval"]
    assert [name_of(one) for one in found.targets()] == ["say", "hooks.example.com", "desktop"]
    assert len({key_of(one) for one in found.targets()}) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names 0 targets"),
        ("desktop = true\nsound = true", "sound"),
        ('kinds = ["anything"]\ndesktop = true', "anything"),
        ("desktop = ", "notify.toml"),
        ("[[command]]\nrun = []", "has no program"),
        ('[[command]]\nrun = ["./tell"]', "is a relative path"),
        ('[[command]]\nrun = ["say"]\n[[command]]\nrun = ["say"]', "names one target twice"),
        ('[[webhook]]\nurl = "http://example.com/"', "is not https"),
        ('[[webhook]]\nurl = "ftp://example.com/"', "is not an http or https address"),
        ('[[webhook]]\nurl = "https://example.com/"\nsecret = "short"', "a secret is not whsec_"),
        ('[[webhook]]\nurl = "https://example.com/"\nformat = "fax"', "fax"),
        ("# " + "x" * 70_000, "more than 65536 bytes"),
    ],
)
def test_what_cannot_work_is_refused(config: Path, tmp_path: Path, text: str, said: str) -> None:
    """A setting that is not known, or cannot be reached safely, is an error that names it."""
    written(config, text)
    with pytest.raises(AdjournError, match=said):
        read_settings(str(tmp_path / "work"))


@pytest.mark.parametrize(
    ("mode", "said"), [(0o620, "can be written by other users"), (0o644, "other users can read it")]
)
def test_a_file_of_others_is_refused(config: Path, tmp_path: Path, mode: int, said: str) -> None:
    """Others may not write the file, nor read one that has a secret."""
    written(config, f'[[webhook]]\nurl = "https://example.com/"\nsecret = "{SECRET}"\n', mode)
    with pytest.raises(AdjournError, match=said):
        read_settings(str(tmp_path / "work"))


def test_a_workspace_has_no_settings(config: Path, tmp_path: Path) -> None:
    """Settings in the workspace, where an agent writes, are refused; without any the error names the file."""
    written(config, "desktop = true")
    with pytest.raises(AdjournError, match="inside the workspace"):
        read_settings(str(tmp_path))
    (config / "notify.toml").unlink()
    with pytest.raises(AdjournError, match=r"there is no .*notify\.toml"):
        read_settings(str(tmp_path / "work"))
