"""`make mutants`: changes the rules in small ways, and prints each change that no test notices.

Each file is judged by a few fast tests of its own, so that a mutant takes about a second. The text
of an error is not changed: tests check the facts in it, not every word.
"""

import dataclasses
import multiprocessing
import shutil
import sys
from pathlib import Path

import libcst as cst
import libcst.matchers as m
from mutmut import __main__ as mutmut
from mutmut import configuration
from mutmut.mutation import file_mutation
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code

GOLDEN = "tests/unit/golden/test_sql.py"
EXAMPLES = "tests/unit/test_doctests.py::test_examples"
STORE_RULES = "tests/unit/storage/test_store_rules.py"


@dataclasses.dataclass(frozen=True)
class Judged:
    """How a file is tried.

    Attributes:
        tests: The tests that must notice its mutants.
        only: The functions that are tried; all if empty.
        without: Functions that are not: they hand SQL to Spark, and tests/integration judges them.
    """

    tests: list[str]
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


FILES = {
    "trilayer_core/seam.py": Judged(
        ["tests/unit/seam/test_seam_rules.py", f"{EXAMPLES}[trilayer_core.seam]"]
    ),
    "trilayer_core/compute/unknown_fields.py": Judged(
        ["tests/unit/compute/test_unknown_fields.py"]
    ),
    "trilayer_core/compute/parsing.py": Judged(
        [GOLDEN, "tests/unit/compute/test_json.py"], without=("log_columns", "parse")
    ),
    "trilayer_core/compute/formats/json.py": Judged(
        [
            GOLDEN,
            "tests/unit/compute/test_json.py",
            f"{EXAMPLES}[trilayer_core.compute.formats.json]",
        ]
    ),
    "trilayer_core/compute/grouping.py": Judged(
        [GOLDEN, "tests/unit/compute/test_grouping.py"], without=("run", "slice_of")
    ),
    "trilayer_core/compute/merging.py": Judged([GOLDEN, "tests/unit/compute/test_merging.py"]),
    "trilayer_core/store/continuity.py": Judged([STORE_RULES]),
    "trilayer_core/store/cover.py": Judged([STORE_RULES]),
    "trilayer_core/store/intervals.py": Judged([STORE_RULES]),
    "trilayer_core/store/publication.py": Judged([STORE_RULES]),
    "trilayer_core/store/publications.py": Judged(
        ["tests/unit/storage/test_pointer.py", "tests/unit/seam/test_held.py"]
    ),
    "serving_layer/state.py": Judged(["tests/unit/serving/test_plan.py"]),
    "trilayer_core/store/segments.py": Judged([STORE_RULES], only=("standing",)),
    "trilayer_core/store/master.py": Judged([STORE_RULES], only=("recorded_cuts",)),
}

NOTICED = ("killed", "timeout", "segfault", "suspicious")


class OutsideOfMessages(file_mutation.MutationVisitor):
    """Changes the functions that are tried, but no text in a `raise`."""

    judged: Judged

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._texts = []

    def _skip_node_and_children(self, node):
        if isinstance(node, cst.Raise):
            self._texts += m.findall(node, m.SimpleString())
        if any(node is text for text in self._texts):
            return True
        outermost = self.get_metadata(file_mutation.OuterFunctionProvider, node, None) is node
        if outermost and isinstance(node, cst.FunctionDef):
            name, judged = node.name.value, self.judged
            if name in judged.without or (judged.only and name not in judged.only):
                return True
        return super()._skip_node_and_children(node)


def judge(file):
    """Tries all mutants of a file; says how many were noticed, and shows the others."""
    shutil.rmtree("mutants", ignore_errors=True)
    OutsideOfMessages.judged = FILES[file]
    file_mutation.MutationVisitor = OutsideOfMessages
    configuration._config = dataclasses.replace(
        configuration.config(),
        only_mutate=[file],
        pytest_add_cli_args_test_selection=FILES[file].tests,
    )
    mutmut._run([], max_children=2)
    data = SourceFileMutationData(path=Path(file))
    data.load()
    status = {name: status_by_exit_code[code] for name, code in data.exit_code_by_key.items()}
    print()
    survivors = [name for name, outcome in status.items() if outcome not in NOTICED]
    for name in survivors:
        print(f"{status[name]}: {name}\n{get_diff_for_mutant(name, path=Path(file))}")
    noticed = len(status) - len(survivors)
    print(f"{file}: {noticed} of {len(status)} mutants were noticed, {noticed / len(status):.1%}")


if __name__ == "__main__":
    asked = sys.argv[1:] or list(FILES)
    if unknown := [file for file in asked if file not in FILES]:
        sys.exit(f"FILE must be among {', '.join(FILES)}; got {', '.join(unknown)}")
    for file in asked:
        # A process for each, since mutmut keeps what it has found in its modules.
        judging = multiprocessing.Process(target=judge, args=(file,))
        judging.start()
        judging.join()
