"""Files of users find the modules of their own folder: policies, and what makes environments."""

import importlib
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import coopbench
from coopbench.baselines.own_code import load_code
from coopbench_envs import own_files

POLICY = """
import numpy as np
import package.part as part
from helpers import SHARE

def f(observations):
    import lazily
    from within.deep import DEEP
    value = SHARE + lazily.LATE + part.OTHER + DEEP
    return np.full((*observations.shape[:2], 1), value / 4)
"""


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """Each test is the first in its process that executes files."""
    monkeypatch.setattr(own_files, "_files", {})
    modules = set(sys.modules)
    yield
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def policy_in(folder, share):
    """Write a policy that invests ``share``, which each module beside it holds a quarter of."""
    sources = {
        "policy.py": POLICY,
        "helpers.py": f"import more\n\n\ndef share():\n    return {share}\n\n\nSHARE = share()\n",
        "more.py": "",
        "lazily.py": f"LATE = {share}\n",
        "package/__init__.py": "",
        "package/part.py": "from .other import OTHER\n",
        "package/other.py": f"import helpers\n\nOTHER = {share} * helpers.SHARE / helpers.SHARE\n",
        "within/deep.py": f"DEEP = {share}\n",
    }
    for name, source in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(source)
    return f"{folder / 'policy.py'}:f"


def invests(policy):
    return policy.act(np.zeros((1, 1, 3))).item()


def test_policies_of_two_folders_have_modules_of_the_same_names(tmp_path):
    names = [policy_in(tmp_path / str(share), share) for share in (0.1, 0.9)]
    first, second = map(load_code, names)
    assert (invests(first), invests(second)) == pytest.approx((0.1, 0.9))
    report = coopbench.evaluate("TrustDilemma-v1", {"A": names[0], "B": names[1]}, episodes=1)
    means = {row.mean for row in report.estimates if row.metric == "return"}
    assert len(means) == 2
    copy = pickle.loads(pickle.dumps(first))  # as a worker process gets it
    assert invests(copy) == pytest.approx(0.1)


def test_an_edited_module_is_that_of_the_file_from_then_on(tmp_path):
    name = policy_in(tmp_path, 0.1)
    before = load_code(name)
    policy_in(tmp_path, 0.3)
    assert invests(load_code(name)) == pytest.approx(0.3)
    assert before.act(np.zeros((1, 1, 3))).shape == (1, 1, 1)


def test_modules_beside_a_file_come_after_those_of_python_and_before_others(tmp_path, monkeypatch):
    for folder, value in (("elsewhere", 0.9), ("own", 0.1)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "utils.py").write_text(f"VALUE = {value}\n")
    (tmp_path / "elsewhere" / "data.py").write_text("")
    (tmp_path / "own" / "data").mkdir()  # a folder without code
    (tmp_path / "own" / "colorsys.py").write_text("raise SystemExit('hidden')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    assert importlib.import_module("utils").VALUE == 0.9
    code = "import colorsys\nimport data\nimport utils\ndef f(observations):\n"
    (tmp_path / "own" / "policy.py").write_text(code + "    return np.array(utils.VALUE)\n")
    with (tmp_path / "own" / "policy.py").open("a") as file:
        file.write("import numpy as np\nassert data.__file__\n")
    assert invests(load_code(f"{tmp_path / 'own' / 'policy.py'}:f")) == 0.1
    assert importlib.import_module("utils").VALUE == 0.9
    assert str(tmp_path / "own") not in sys.path


def test_objects_of_modules_beside_a_file_can_be_pickled(tmp_path):
    name = policy_in(tmp_path, 0.1)
    source = "from dataclasses import dataclass\n@dataclass\nclass Memory:\n    a: 'int'\n"
    (tmp_path / "helpers.py").write_text(f"{source}\nSHARE = Memory\n")
    (tmp_path / "policy.py").write_text("from helpers import SHARE\ndef f(observations): ...\n")
    memory = load_code(name).policy.__globals__["SHARE"](3)
    assert pickle.loads(pickle.dumps(memory)) == memory


def test_modules_that_are_imported_by_name_are_those_of_one_folder(tmp_path):
    """Gymnasium imports the module of an entry point so."""
    code = "import importlib\nnp = importlib.import_module('numpy')\ndef f(observations):\n"
    code += "    return np.array(importlib.import_module('helpers').SHARE)\n"
    names = [policy_in(tmp_path / str(share), share) for share in (0.1, 0.9)]
    for name in names:
        Path(name.removesuffix(":f")).write_text(code)
    assert invests(load_code(names[0])) == 0.1
    policy_in(tmp_path / "0.1", 0.3)
    Path(names[0].removesuffix(":f")).write_text(code)
    assert invests(load_code(names[0])) == 0.3
    second = load_code(names[1])
    with pytest.raises(ModuleNotFoundError, match=r"'helpers' beside each of .*0\.1.*0\.9.*Rename"):
        invests(second)


def test_environments_of_two_files_have_modules_of_the_same_names(tmp_path):
    def steps_of(folder, steps=None):
        """Return what the file in a folder makes, after ``steps`` have been written there."""
        if steps is not None:
            folder.mkdir(exist_ok=True)
            (folder / "helpers.py").write_text(f"STEPS = {steps}\n")
            (folder / "game.py").write_text("from helpers import STEPS\n")
        return own_files.module_of(folder / "game.py").STEPS

    one, other = tmp_path / "one", tmp_path / "other"
    assert (steps_of(one, 2), steps_of(other, 3), steps_of(one)) == (2, 3, 2)
    before = own_files.module_of(one / "game.py")
    assert own_files.module_of(one / "game.py") is before
    assert (steps_of(one, 4), steps_of(other)) == (4, 3)


def test_what_a_file_imports_is_found_without_executing_it(tmp_path):
    policy_in(tmp_path, 0.1)
    (tmp_path / "more.py").write_text("from package import *\nfrom lazily import *\nimport bad\n")
    (tmp_path / "bad.py").write_text("def (")
    (tmp_path / "package" / "third.py").write_text("raise SystemExit('executed')\n")
    names = ("bad", "helpers", "lazily", "more", "package.other", "package.part", "package.third")
    expected = {name: tmp_path / f"{name.replace('.', '/')}.py" for name in (*names, "within.deep")}
    expected["package"] = tmp_path / "package" / "__init__.py"
    assert own_files.modules_beside(tmp_path / "policy.py") == expected


def test_a_module_in_a_package_is_known_with_what_it_imports_from_it(tmp_path):
    package = tmp_path / "apk"
    package.mkdir()
    sources = {
        "__init__.py": "",
        "mod.py": "from .helper import A\nfrom apk.other import B\nimport apk.third\n",
        **dict.fromkeys(("helper.py", "other.py", "third.py", "unused.py"), "A = B = 1\n"),
    }
    for name, source in sources.items():
        (package / name).write_text(source)
    digests = own_files.digests_of(package / "mod.py", package="apk")
    used = ("__init__", "helper", "mod", "other", "third")
    assert list(digests) == [f"apk/{name}.py" for name in used]
    alone = own_files.digests_of(package / "unused.py", package="apk")
    assert list(alone) == ["apk/__init__.py", "apk/unused.py"]
    (package / "other.py").write_text("A = B = 2\n")
    changed = own_files.digests_of(package / "mod.py", package="apk")
    assert {name for name in digests if digests[name] != changed[name]} == {"apk/other.py"}
