import pytest
from django.core.mail import EmailMessage

from apps.common.mail import PrivateFiles

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("is_there", [False, True])
def test_letters_kept_as_files_are_for_their_owner_only(is_there, tmp_path, settings):
    directory = tmp_path / "mail"
    if is_there:
        directory.mkdir(mode=0o755)
    settings.EMAIL_FILE_PATH = directory
    PrivateFiles().send_messages([EmailMessage("a link", "text", "from@example.org", ["to@example.org"])])
    assert directory.stat().st_mode & 0o777 == 0o700
    assert len(list(directory.iterdir())) == 1
