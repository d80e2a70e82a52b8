"""Changes of the file of a server's users, which has the user ann, while the server runs."""

from trilayer_server.users import Users


def _is_a_folder(path):
    path.unlink()
    path.mkdir()


UNREADABLE = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_text(""),
    "torn": lambda path: path.write_text(path.read_text()[:-30]),
    "of another form": lambda path: path.write_text('["ann"]'),
    "null": lambda path: path.write_text("null"),
    "of an unknown role": lambda path: path.write_text(path.read_text().replace("reader", "king")),
    "no text": lambda path: path.write_bytes(b"\xff\xfe"),
    "a folder": _is_a_folder,
}
WITHOUT_USERS = {
    "the last one removed": lambda path: Users(path).remove("ann"),
    "an empty object": lambda path: path.write_text("{}"),
}
