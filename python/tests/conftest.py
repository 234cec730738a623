import alluvia
import pytest


@pytest.fixture
def db(tmp_path):
    with alluvia.open(tmp_path / "db", memory_limit="1GB", threads=2) as database:
        yield database
