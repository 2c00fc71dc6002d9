"""Makes shapes of bodies that were captured: python shapes.py ROUTE BODY > services/gateway/testdata/agents/NAME.json

Every field and type stays. Texts become ones of ours, and schemas of tools keep the names and types of arguments alone.
"""
import json
import sys

# Fields whose strings are words of the API, or names that others refer to.
KEPT = {"role", "type", "name", "effort", "keep", "display", "tool_choice", "status", "verbosity", "summary", "ttl", "phase", "mode", "format", "include"}
IDS = {"id", "call_id", "tool_use_id", "tool_call_id"}


def schema(of):
    kinds = {name: {"type": p.get("type", "string")} if isinstance(p, dict) else p for name, p in of.get("properties", {}).items()}
    return {"type": "object", "properties": kinds, "required": of.get("required", [])}


def shape(value, key="", names=None):
    if isinstance(value, dict):
        return {k: schema(v) if k in ("input_schema", "parameters", "schema") and isinstance(v, dict) else shape(v, k, names) for k, v in value.items()}
    if isinstance(value, list):
        return [shape(v, key, names) for v in value]
    if not isinstance(value, str) or key in KEPT:
        return value
    if key in IDS:
        return names.setdefault(value, f"{value.split('_')[0][:6]}_{len(names) + 1}")
    if key == "model":
        return "demo"
    if key == "arguments":
        return '{"command":"ls"}'
    return "Some text." if value else ""


body = json.load(open(sys.argv[2]))
print(json.dumps({"route": sys.argv[1], "body": shape(body, names={})}, indent=1, ensure_ascii=False))
