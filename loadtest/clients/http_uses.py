"""Clients of HTTP that we did not write, each used many times, unchanged but for its base URL.

    pip install openai anthropic litellm langchain-openai instructor openai-agents
    python http_uses.py http://127.0.0.1:8080 demo

A client that is not installed is left out; further words name those that are wanted. Each use
prints a line of JSON: client, use, and error, which is null where all was as the client's own
documentation has it. Folder uses has them.
"""

import importlib
import importlib.util
import inspect
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "uses"))
ONLY = sys.argv[3:]
CLIENTS = {"openai": "openai_uses", "anthropic": "anthropic_uses", "litellm": "litellm_uses", "langchain_openai": "langchain_uses", "agents": "agents_uses", "instructor": "instructor_uses"}
REPEAT = int(os.environ.get("REPEAT", "1"))

for name, uses in CLIENTS.items():
    if importlib.util.find_spec(name) is None or ONLY and name not in ONLY:
        continue
    every = {k: f for k, f in importlib.import_module(uses).uses().items() if inspect.isfunction(f) and f.__qualname__.endswith("<locals>." + k) and not inspect.signature(f).parameters}
    for use, run in list(every.items()) * REPEAT:
        error = None
        try:
            run()
        except Exception as e:  # whatever a client raises
            error = f"{type(e).__name__}: {e}"[:500]
        print(json.dumps({"client": name, "use": use, "error": error}), flush=True)
