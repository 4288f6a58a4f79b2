"""croissant.json: what stored tables and frozen instances are, for programs that read data.

The format is Croissant 1.0 of MLCommons. Each kind of table is a set of files, one of each
protocol, and a set of records whose fields are the columns; instances are described as a whole.
"""

import csv
import json
import re
from collections.abc import Mapping
from inspect import getsource
from pathlib import Path
from typing import Any, get_type_hints

from checkout import ROOT
from stored_results import RESULTS

import coopbench
from coopbench.analysis.findings import Part
from coopbench.report.sections import parts

FILE = ROOT / "croissant.json"
_SCHEMA, _FORMAT = "https://schema.org/", "http://mlcommons.org/croissant/"
_TYPES = {str: "sc:Text", int: "sc:Integer", float: "sc:Float", bool: "sc:Boolean"}
_TYPES[int | None] = _TYPES[int]
_TERMS = ("column", "extract", "field", "fileProperty", "fileSet", "includes", "recordSet", "regex")
_COMMENT = re.compile(r"^    (\w+): .*?  # (.+)$", re.MULTILINE)


def text() -> str:
    """Return the content of the file."""
    return json.dumps(content(), indent=1, ensure_ascii=False) + "\n"


def content() -> dict[str, Any]:
    """Return the description of the data set."""
    files = {file.name: file for file in sorted(RESULTS.glob("*/*.csv"))}  # one of each kind
    described = {file: part for name, part in parts().items() if (file := f"{name}.csv") in files}
    return {
        "@context": context(),
        "@type": "sc:Dataset",
        "name": "coopbench",
        "description": (
            "Reference results of multi-agent protocols, and the frozen instances that they play. "
            "docs/datasheet.md says how they were made, docs/reports.md what the tables hold."
        ),
        "conformsTo": f"{_FORMAT}1.0",
        "version": coopbench.__version__,
        "creator": {"@type": "sc:Organization", "name": "The coopbench team"},
        "license": "https://spdx.org/licenses/MIT.html",
        "citeAs": "The coopbench team. coopbench, version " + coopbench.__version__ + ".",
        "distribution": [
            *(tables(file, part) for file, part in described.items()),
            {
                "@type": "cr:FileSet",
                "@id": "instances",
                "name": "instances",
                "description": "Starts of episodes, one file of arrays of NumPy for each task.",
                "encodingFormat": "application/zip",
                "includes": "protocols/instances.zip",
            },
        ],
        "recordSet": [records(files[file], part) for file, part in described.items()],
    }


def context() -> dict[str, Any]:
    """Return which vocabularies the keys are from."""
    return {
        "@language": "en",
        "@vocab": _SCHEMA,
        "sc": _SCHEMA,
        "cr": _FORMAT,
        "dct": "http://purl.org/dc/terms/",
        "citeAs": "cr:citeAs",
        "conformsTo": "dct:conformsTo",
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        **{term: f"cr:{term}" for term in (*_TERMS, "source", "transform")},
    }


def tables(file: str, part: Part) -> dict[str, Any]:
    """Return the set of all files of one kind of table."""
    return {
        "@type": "cr:FileSet",
        "@id": file,
        "name": file,
        "description": (part.make.__doc__ or "").partition("\n")[0].replace("``", "`"),
        "encodingFormat": "text/csv",
        "includes": f"benchmarks/results/tables/*/{file}",
    }


def records(file: Path, part: Part) -> dict[str, Any]:
    """Return the rows of one kind of table: its columns, and its folder."""
    folder = {
        "extract": {"fileProperty": "fullpath"},
        "transform": {"regex": r".*/([^/]+)/[^/]+$"},
    }
    meanings, types = dict(_COMMENT.findall(getsource(part.line))), get_type_hints(part.line)
    with file.open(encoding="utf-8", newline="") as opened:
        columns = next(csv.reader(opened))
    fields = [
        field(file, "protocol", str, "name of the protocol", folder),
        *(field(file, c, types[c], meanings.get(c), {"extract": {"column": c}}) for c in columns),
    ]
    return {"@type": "cr:RecordSet", "@id": file.stem, "name": file.stem, "field": fields}


def field(
    file: Path, name: str, kind: Any, meaning: str | None, place: Mapping[str, Any]
) -> dict[str, Any]:
    """Return one column of a kind of table."""
    return {
        "@type": "cr:Field",
        "@id": f"{file.stem}/{name}",
        "name": name,
        **({"description": meaning} if meaning else {}),
        "dataType": _TYPES[kind],
        "source": {"fileSet": {"@id": file.name}, **place},
    }
