"""`kfmt` as a shell calls it, on a running server of warm runs.

python -I -S tests/support/warm_client.py FD ARGUMENT…     FD: the server's, which is inherited
"""

import json
import os
import socket
import sys

with socket.socket(fileno=int(sys.argv[1])) as control:
    connection, remote_end = socket.socketpair()
    with remote_end:
        socket.send_fds(control, [b"r"], [remote_end.fileno(), 0, 1, 2])
request = {
    "argv": [os.fsencode(argument).hex() for argument in sys.argv[2:]],
    "cwd": os.getcwd(),  # noqa: PTH109 (pathlib takes as long to import as all of this)
    "env": dict(os.environ),
}
connection.sendall(json.dumps(request).encode() + b"\n")
with connection.makefile("rb") as lines:
    _, code = lines.readline(), int(lines.readline())
os._exit(code if code >= 0 else 128 - code)
