"""An MCP server on stdio with one tool, `run_command`, which runs a command line and answers with its output and exit code, as text."""

import json
import subprocess
import sys

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result: dict[str, object] = {}
    if message["method"] == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "shell", "version": "1"},
        }
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "run_command", "inputSchema": {"type": "object"}}]}
    elif message["method"] == "tools/call":
        command = message["params"]["arguments"]["command"]
        done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        result = {"content": [{"type": "text", "text": f"{done.stdout}\nexit code: {done.returncode}"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
