"""Time and recall@1 of hnswlib on the vectors that main.go has written to a folder.

    python3 bench_hnswlib.py DIR [embeddings|maps]

Processor time of one thread, M = 16, ef_construction = 200; the last 200 vectors of a file are queries.
"""
import pathlib
import re
import sys
import time

import hnswlib
import numpy

QUERIES, WIDTH = 200, {"embeddings": 2048, "maps": 24 * 60}


def measure(path, what, maps):
    vectors = numpy.fromfile(path, dtype=numpy.float32).reshape(-1, WIDTH[what])
    base, queries = vectors[:maps], vectors[maps:]
    unit = base / numpy.linalg.norm(base, axis=1, keepdims=True)
    nearest = numpy.concatenate([numpy.argmax(unit @ q) for q in queries], axis=None)
    index = hnswlib.Index(space="cosine", dim=base.shape[1])
    index.init_index(max_elements=maps, M=16, ef_construction=200, random_seed=1)
    index.set_num_threads(1)
    began = time.process_time()
    index.add_items(base)
    added = (time.process_time() - began) / maps * 1e6
    for ef in (10, 50, 200, 800):
        index.set_ef(ef)
        hits, began = 0, time.process_time()
        for query, want in zip(queries, nearest):
            hits += index.knn_query(query, k=1)[0][0][0] == want
        took = (time.process_time() - began) / len(queries) * 1e6
        print(f"| {maps} | hnswlib, {what}, ef {ef} | {took:.0f} | {hits / len(queries):.2f} | {added:.0f} |", flush=True)


def main():
    kinds = sys.argv[2:] or list(WIDTH)
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.f32"), key=lambda p: p.stat().st_size):
        what, maps = re.fullmatch(r"(\w+)-(\d+)", path.stem).groups()
        if what in kinds:
            measure(path, what, int(maps))


main()
