"""Pass lines between pipes and a server in the process of the tests: `python -IS pipe_end.py PORT NUMBER 0 FOLDER`.

It starts in a few milliseconds. NUMBER says which server; the other words only show in the list of processes.
"""

import os
import select
import socket
import sys

connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.sendall(f"{sys.argv[2]}\n".encode())
reading = [0, connection.fileno()]
while connection.fileno() in reading:
    for number in select.select(reading, [], [])[0]:
        data = os.read(number, 1 << 16)
        if not data:
            reading.remove(number)
            if number == 0:
                connection.shutdown(socket.SHUT_WR)
        elif number == 0:
            connection.sendall(data)
        else:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
