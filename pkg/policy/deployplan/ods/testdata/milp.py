"""Solves deployments of a batch as one mixed-integer program with HiGHS, beside `switchyard policy deploy --name exact`.

It is run by hand: pip install highspy; python3 milp.py bin/switchyard [SECONDS]. Its formulas are its own (docs/bo-ods.md
has them), so that it also checks those of pkg/policy/cost/scatter. A variable is an expert's function in a mode with a
size of minibatches; modes are chosen by layer, the size of minibatches for all.
"""

import itertools
import json
import math
import random
import subprocess
import sys

import highspy

MB = 1 << 20
SIZES = [m * MB for m in (128, 768, 960, 1152, 1344, 1536, 1728, 1920, 2112, 2304, 2496, 2688, 2880, 3008)]
SHAPES = [(2, 3), (12, 4), (24, 4), (12, 8), (12, 16)]
PAYLOADS = [6291456, 65536]  # messages take few rows of the second, so that objects are used


def instance(layers, experts, seed, payload, rows=10240):
    draw = random.Random(seed)
    loads = []
    for _ in range(layers):
        shares = [0.1 + draw.random() ** 2 for _ in range(experts)]
        loads.append([float(int(rows * s / sum(shares))) for s in shares])
    return {
        "model": {"layers": layers, "experts": experts, "top_k": 1, "expert_bytes": 18874368, "function_bytes": 33566720, "row_in_bytes": 3072, "row_out_bytes": 3072, "next_bytes": 9437184},
        "platform": {
            "memory_bytes": SIZES, "memory_per_cpu_bytes": 1854930944, "read_bytes_per_second": 8e9, "flops_per_second": 20e9, "element_bytes": 4, "invocation_seconds": 0.02,
            "store_latency_seconds": 0.025, "store_bytes_per_second": 75e6, "message_bytes_per_second": 50e6, "payload_bytes": payload, "dollars_per_gb_second": 1.66667e-05, "replicas": 8,
        },
        "loads": loads, "limit_seconds": 1e9, "layer_seconds": 1.5,
    }


def asked(binary, name, x):
    out = subprocess.run([binary, "policy", "deploy", "--name", name], input=json.dumps(x), capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    return json.loads(out.stdout)


def betas(most, n=64):
    if most <= n:
        return list(range(1, most + 1))
    return sorted({math.floor(most ** (i / (n - 1)) + 0.5) for i in range(n)})


def options(x, loads, d, mode, beta):
    """The (latency of the layer, cost) of an expert's functions that no other one is better than."""
    m, p = x["model"], x["platform"]
    din, dout, tdl, bs, bd = m["row_in_bytes"], m["row_out_bytes"], p["store_latency_seconds"], p["store_bytes_per_second"], p["message_bytes_per_second"]
    h = p["invocation_seconds"] + tdl + m["expert_bytes"] / bs
    load = p["invocation_seconds"] + tdl + m["next_bytes"] / bs
    total, with_rows = sum(loads), sum(1 for v in loads if v > 0)
    found = []
    for g in range(1, p["replicas"] + 1):
        r = math.ceil(d / g)
        if mode == 3 and r * max(din, dout) > p["payload_bytes"]:
            continue
        for size in p["memory_bytes"]:
            if m["expert_bytes"] + m["function_bytes"] + r * (din + dout) > size:
                continue
            u = 2 * m["expert_bytes"] / p["element_bytes"] / (p["flops_per_second"] * size / p["memory_per_cpu_bytes"])
            if mode == 1:
                b = min(beta, r)
                t = h + math.ceil(r / b) * (tdl + b * max(din / bs + u, dout / bs)) + tdl + b * dout / bs
                came = tdl + min(with_rows * beta, total) * din / bs
            elif mode == 2:
                t = h + 2 * tdl + r * (din / bs + u + dout / bs)
                came = tdl + total * din / bs
            else:
                t = h + r * (u + dout / bd)
            if mode == 3:
                latency = r * din / bd + t + load
            else:
                latency = max(max(came, h) + t - h, load) + tdl + total * dout / bs
            found.append((latency, g * t * size / (1 << 30) * p["dollars_per_gb_second"]))
    found.sort()
    kept = []
    for o in found:
        if not kept or o[1] < kept[-1][1]:
            kept.append(o)
    return kept


def within(x, sizes):
    """Each layer's ways, without the functions that are too slow even where all other layers are as fast as can be."""
    layers = []
    for of in x["loads"]:
        ways = [(mode, beta, [options(x, of, d, mode, beta) for d in of if d > 0]) for mode, beta in [(3, 1), (2, 1)] + [(1, b) for b in sizes]]
        layers.append([w for w in ways if all(w[2])])
    least = [min(max(o[0][0] for o in lists) for _, _, lists in ways) for ways in layers]
    left = x["limit_seconds"] - x["layer_seconds"] * len(layers) - sum(least)
    for l, ways in enumerate(layers):
        kept = [(mode, beta, [[o for o in one if o[0] <= least[l] + left + 1e-9] for one in lists]) for mode, beta, lists in ways]
        layers[l] = [w for w in kept if all(w[2])]
    return layers


def solve(x, seconds):
    h = highspy.Highs()
    h.silent()
    h.setOptionValue("time_limit", float(seconds))
    h.setOptionValue("mip_rel_gap", 1e-7)
    sizes = betas(int(max(max(of) for of in x["loads"])))[::9]  # eight of those that exact tries, so that it may be below
    size = [h.addBinary() for _ in sizes]
    h.addConstr(h.qsum(size) == 1)
    cost, latencies = [], []
    for ways_of in within(x, sizes):
        latency = h.addVariable(lb=0)
        latencies.append(latency)
        ways = []
        for mode, beta, lists in ways_of:
            way = h.addBinary()
            ways.append((way, lists))
            if mode == 1:
                h.addConstr(way <= size[sizes.index(beta)])
        h.addConstr(h.qsum([w for w, _ in ways]) == 1)
        takes = [[] for _ in ways[0][1]]
        for way, lists in ways:
            for e, list_of in enumerate(lists):
                variables = [h.addBinary() for _ in list_of]
                h.addConstr(h.qsum(variables) == way)
                for v, (seconds_of, dollars) in zip(variables, list_of):
                    takes[e].append(seconds_of * v)
                    cost.append(1e6 * dollars * v)
        for one in takes:
            h.addConstr(latency >= h.qsum(one))
    h.addConstr(h.qsum(latencies) <= x["limit_seconds"] - x["layer_seconds"] * x["model"]["layers"])
    h.minimize(h.qsum(cost))
    info = h.getInfo()
    return info.objective_function_value / 1e6, info.mip_dual_bound / 1e6, h.getRunTime(), str(h.getModelStatus())


def main():
    binary, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 180
    for (layers, experts), payload in itertools.product(SHAPES, PAYLOADS):
        x = instance(layers, experts, layers + experts, payload)
        x["limit_seconds"] = 1e-3
        least = asked(binary, "exact", x)["least_limit_seconds"]
        for times in (1.01, 1.05):
            x["limit_seconds"] = times * least
            exact, ods = asked(binary, "exact", x), asked(binary, "ods", x)
            milp, bound, took, status = solve(x, seconds)
            print(f"{layers} x {experts}, payload {payload}, limit {times} of the least: exact {exact['cost']:.8f} $, ods {ods['cost']:.8f}, MILP {milp:.8f} (bound {bound:.8f}) in {took:.1f} s, {status}", flush=True)


if __name__ == "__main__":
    main()
