"""`opbridge completion` prints what bash, zsh and fish complete."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from command import OPBRIDGE, opbridge


def script(shell: str) -> str:
    done = opbridge("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def completed(*words: str) -> set[str]:
    """The words that bash offers for the last word."""
    quoted = " ".join(f"'{word}'" for word in words)
    program = f"""{script("bash")}
COMP_WORDS=(opbridge {quoted}); COMP_CWORD={len(words)}
_opbridge
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True, cwd=OPBRIDGE.parent)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash() -> None:
    assert completed("") >= {"convert", "doctor", "inspect", "compare", "verify", "new-op", "completion"}
    assert completed("con") == {"convert"}
    assert completed("convert", "--op") == {"--opset", "--ops"}
    assert completed("doctor", "--f") == {"--fix"}
    assert completed("convert", "--target", "onnx") == {"onnx", "onnxruntime"}
    assert completed("convert", "--external-data", "a") == {"auto", "always"}
    assert completed("convert", "--target", "=") == {"onnx", "onnxruntime"}
    assert completed("convert", "--target", "=", "onnxr") == {"onnxruntime"}
    assert completed("completion", "") == {"bash", "zsh", "fish"}
    assert completed("completion", "z") == {"zsh"}
    assert "opbridge" in completed("inspect", "opbri")
    assert "opbridge" in completed("verify", "--inputs", "=", "opbri")


def test_the_choices_of_a_positional() -> None:
    assert "':shell:(bash zsh fish)'" in script("zsh")
    assert "'--target=[" in script("zsh")
    assert "complete -c opbridge -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'" in script("fish")


def commands_and_options() -> dict[str, set[str]]:
    """The subcommands and their options in the command's own help."""
    listed = opbridge("--help").stdout.upper().partition("SUBCOMMANDS:")[2].splitlines()
    names = [line.split()[0].lower() for line in listed if re.match(r"  \S", line)]
    assert "convert" in names
    return {name: set(re.findall(r"(?m)^ +(?:-\w, )?(--[\w-]+)", opbridge(name, "--help").stdout)) for name in names}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_option_is_there(shell: str) -> None:
    text = script(shell)
    for command, options in commands_and_options().items():
        for option in options - {"--help"}:
            if shell == "fish":
                assert f"'__fish_seen_subcommand_from {command}' -l {option[2:]} " in text
            else:
                assert option in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_reads_it(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-n"], input=script(shell), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_another_shell() -> None:
    done = opbridge("completion", "tcsh")
    assert done.returncode == 2
    assert "tcsh" in done.stderr
