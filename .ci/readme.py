"""Do what README.md says with an installed package, in the folder where this is started.

    python .ci/readme.py README.md

Blocks of Python code run each by itself, then the commands of coopbench, in their order. Where
PyTorch is missing, ``coopbench train`` has to name the extra that installs it. The seconds up to
the end of the first block are printed.
"""

import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path


def blocks(text: str, language: str) -> list[str]:
    """Return the blocks of code in a language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands(text: str) -> list[list[str]]:
    """Return the commands of coopbench, each as its words."""
    lines = [
        line.split("#")[0].split() for each in blocks(text, "sh") for line in each.splitlines()
    ]
    return [words for words in lines if words[:1] == ["coopbench"]]


def run(words: list[str]) -> None:
    """Run a program; end with what it printed if it fails, other than for want of PyTorch."""
    done = subprocess.run(words, capture_output=True, text=True)
    printed = done.stdout + done.stderr
    lacking = "train" in words and find_spec("torch") is None
    if lacking and not (done.returncode and "[train]" in printed):
        sys.exit(f"{words} does not name the extra of learners, which is not installed:\n{printed}")
    if done.returncode and not lacking:
        sys.exit(f"{words} ended with {done.returncode}:\n{printed}")


def main() -> None:
    """Run all blocks of the file that is named, and its commands."""
    import coopbench

    if not Path(coopbench.__file__).is_relative_to(sys.prefix):
        sys.exit(f"{coopbench.__file__} is not the installed package; start this elsewhere.")
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    code = blocks(text, "python")
    for number, block in enumerate(code):
        start = time.perf_counter()
        run([sys.executable, "-c", block])
        if number == 0:
            print(f"the first table: {time.perf_counter() - start:.1f} s", flush=True)
    # The policy of the first block, which the text tells to put into a file.
    Path("policy.py").write_text(code[0].partition("\nreport =")[0], encoding="utf-8")
    for words in commands(text):
        run([str(Path(sys.executable).with_name(words[0])), *words[1:]])


if __name__ == "__main__":
    main()
