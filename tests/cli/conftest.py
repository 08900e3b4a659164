from pathlib import Path

import pytest

DEV = Path(__file__).parents[2] / "examples" / "treebank" / "dev.conllu"


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty sentences with their trees."""
    path = tmp_path_factory.mktemp("dev") / "dev.conllu"
    path.write_text("\n\n".join(DEV.read_text(encoding="utf-8").split("\n\n")[:30]) + "\n\n", encoding="utf-8")
    return path
