import pytest

from deploy.local.layout import DataPlaceError, Layout


def test_a_place_where_nothing_can_be_kept_is_named_with_the_variable_that_moves_it(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataPlaceError, match=r"file/var .*TOKENYARD_VAR"):
        Layout(tmp_path / "file" / "var").make()
