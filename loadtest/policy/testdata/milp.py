"""Solves deployments of batches as mixed-integer programs with HiGHS, for TestMILP beside `exact`.

Its formulas are its own (docs/bo-ods.md has them), so that it also checks those of pkg/policy/cost/scatter. It reads
{"sizes": N, "seconds": S, "whole_up_to": experts, "instances": [...]} and prints for each instance what two programs find (the first only for small ones):

- whole: a binary variable for each expert's function in each mode with each size of minibatches, and each layer's latency
  above those of its experts;
- ends: a binary variable for each time at which a layer may end, with what its experts cost least until then.

Modes are chosen by layer, one of N sizes of minibatches for all.
"""

import json
import math
import os
import sys

import highspy


def betas(most, n):
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
            cpus = size / p["memory_per_cpu_bytes"]
            u = 2 * m["expert_bytes"] / p["element_bytes"] / (p["flops_per_second"] * cpus)
            read = m["expert_bytes"] / (p["read_bytes_per_second"] * cpus)
            if mode == 1:
                b = min(beta, r)
                t = h + math.ceil(r / b) * (tdl + max(b * din / bs + max(read, b * u), b * dout / bs)) + tdl + b * dout / bs
                came = tdl + min(with_rows * beta, total) * din / bs
            elif mode == 2:
                t = h + 2 * tdl + r * (din / bs + dout / bs) + max(read, r * u)
                came = tdl + total * din / bs
            else:
                t = h + max(read, r * u) + r * dout / bd
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


def started(x, n, seconds):
    h = highspy.Highs()
    h.silent()
    for option, value in (("time_limit", float(seconds)), ("mip_rel_gap", 1e-9), ("threads", 1)):
        h.setOptionValue(option, value)
    sizes = betas(int(max(max(of) for of in x["loads"])), n)
    size = [h.addBinary() for _ in sizes]
    h.addConstr(h.qsum(size) == 1)
    return h, sizes, size


def solved(h, x, latency, cost):
    h.addConstr(latency <= x["limit_seconds"] - x["layer_seconds"] * x["model"]["layers"])
    h.minimize(cost)
    info = h.getInfo()
    return {"cost": info.objective_function_value / 1e6, "bound": info.mip_dual_bound / 1e6, "seconds": h.getRunTime(), "status": str(h.getModelStatus())}


def whole(x, n, seconds):
    h, sizes, size = started(x, n, seconds)
    cost, latencies = [], []
    for ways_of in within(x, sizes):
        latency = h.addVariable(lb=0)
        latencies.append(latency)
        ways = [(h.addBinary(), mode, beta, lists) for mode, beta, lists in ways_of]
        h.addConstr(h.qsum([w[0] for w in ways]) == 1)
        takes = [[] for _ in ways[0][3]]
        for way, mode, beta, lists in ways:
            if mode == 1:
                h.addConstr(way <= size[sizes.index(beta)])
            for e, list_of in enumerate(lists):
                variables = [h.addBinary() for _ in list_of]
                h.addConstr(h.qsum(variables) == way)
                for v, (seconds_of, dollars) in zip(variables, list_of):
                    takes[e].append(seconds_of * v)
                    cost.append(1e6 * dollars * v)
        for one in takes:
            h.addConstr(latency >= h.qsum(one))
    return solved(h, x, h.qsum(latencies), h.qsum(cost))


def points(lists):
    """What a layer's experts cost least, by when the last of them ends."""
    found = []
    for end in sorted({o[0] for one in lists for o in one}):
        cheapest = [[c for t, c in one if t <= end] for one in lists]
        if all(cheapest):
            dollars = sum(min(c) for c in cheapest)
            if not found or dollars < found[-1][1]:
                found.append((end, dollars))
    return found


def ends(x, n, seconds):
    h, sizes, size = started(x, n, seconds)
    cost, latency = [], []
    for ways_of in within(x, sizes):
        chosen = []
        for mode, beta, lists in ways_of:
            all_of = points(lists)
            variables = [h.addBinary() for _ in all_of]
            chosen += variables
            if mode == 1:
                h.addConstr(h.qsum(variables) <= size[sizes.index(beta)])
            for v, (seconds_of, dollars) in zip(variables, all_of):
                latency.append(seconds_of * v)
                cost.append(1e6 * dollars * v)
        h.addConstr(h.qsum(chosen) == 1)
    return solved(h, x, h.qsum(latency), h.qsum(cost))


def main():
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # where the solver says who it is
    asked = json.load(sys.stdin)
    for x in asked["instances"]:
        found = {"ends": ends(x, asked["sizes"], asked["seconds"])}
        if x["model"]["layers"] * x["model"]["experts"] <= asked["whole_up_to"]:
            found["whole"] = whole(x, asked["sizes"], asked["seconds"])
        print(json.dumps(found), file=out, flush=True)


if __name__ == "__main__":
    main()
